#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "runner/parent/schema/schema.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "tests/bench/blocks.h"

/// During its lifetime, tensors are allocated as in the worker. Must be created first.
struct WorkerMemory {
  stages::CpuPool pool;
  stages::CountingAllocator counter;
};

/// Lets training run in blocks of steps: it waits whenever a step records its loss, which every
/// step does once.
class BlockContext final : public runner::RunContext {
 public:
  explicit BlockContext(std::filesystem::path folder)
      : RunContext({.seed = 42, .device = "cpu", .folder = std::move(folder)}) {}

  void metric(std::string_view name, double value, std::int64_t) override {
    if (name != "train/loss") return;
    const double now = seconds_now();
    losses_.push_back(value);
    seconds_.push_back(now - began_);
    began_ = now;
    if (--left_ > 0) return;
    wait();
  }
  /// Reports the finished block, if there is one, and waits for the next.
  void wait() {
    if (!losses_.empty()) report({{"seconds", seconds_}, {"losses", losses_}});
    losses_.clear();
    seconds_.clear();
    const std::optional<int> block = next_block();
    is_over_ = !block;
    left_ = block.value_or(1);
    began_ = seconds_now();
  }

  void progress(const runner::Progress&) override {}
  void say(std::string_view) override {}
  bool canceled() const override { return is_over_; }

 private:
  std::vector<double> losses_, seconds_;
  int left_ = 0;
  double began_ = 0;
  bool is_over_ = false;
};

/// Creates a stage of this kind, with other options at their defaults.
inline std::unique_ptr<runner::Stage> make(const runner::StageKind& kind,
                                           const runner::SchemaSet& schemas,
                                           nlohmann::ordered_json options) {
  options["kind"] = kind.name;
  runner::Value value = runner::from_json(options);
  runner::Diagnostics errors = schemas.validate(value, schemas.kind(kind.name)->file);
  runner::ConfigReader reader(value, "");
  if (errors.empty()) {
    auto stage = kind.create(reader);
    if (stage) return std::move(*stage);
    errors = stage.errors();
  }
  throw std::invalid_argument(errors[0].message + " [" + errors[0].pointer + "]");
}
