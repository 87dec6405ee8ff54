#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/worker/executor.h"

namespace runner {

struct Number : Artifact {
  static constexpr auto kType = ArtifactType::kMetrics;
  explicit Number(std::int64_t value) : value(value) { ++alive; }
  ~Number() override { --alive; }
  ArtifactType type() const override { return kType; }
  std::int64_t value;
  static inline int alive = 0;
};

/// Adds `plus` to the sum of its inputs and does what `act` says.
class AddingStage : public Stage {
 public:
  AddingStage(std::int64_t plus, std::string act) : plus_(plus), act_(std::move(act)) { ++alive; }
  ~AddingStage() override { --alive; }

  Outputs run(const Inputs& inputs, RunContext& context) override {
    if (act_ == "stage error")
      throw StageError(ErrorCode::kMissingFolder, "no folder 'x'").at("/root").with_help("make it");
    if (act_ == "stranded") {
      throw StageError(ErrorCode::kOutOfMemory, "no memory")
          .with_help("use less")
          .elsewhere({"gpu", "cpu"}, {.cause = "out of memory", .taken = 60}, 2);
    }
    if (act_ == "bad_alloc") throw std::bad_alloc();
    if (act_ == "torch")
      throw std::runtime_error("mat1 and mat2 cannot be multiplied\nException raised from here");
    if (act_ == "nondeterministic")
      throw std::runtime_error(
          "put_ does not have a deterministic implementation, but you set it\nException raised");
    if (act_ == "observed")
      throw StageError(ErrorCode::kStageFailed, context.node().observer ? "observed" : "alone");
    if (act_ == "torch oom")
      throw std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB");
    if (act_ == "disk full") throw std::system_error(ENOSPC, std::generic_category(), "weights");
    if (act_ == "strange") throw 42;
    if (act_ == "cancel") throw Canceled{};
    if (act_ == "nothing") return {};
    if (const auto trained = context.node().trained)
      context.say("trained in " + trained->folder.string());
    if (act_ == "progress") {
      for (int i = 1; i <= 4; ++i)
        context.progress({.phase = i < 4 ? "train" : "validate", .step = i});
    }
    if (act_ == "source")
      context.say("in: " + inputs.source("in") + ", other: " + inputs.source("other"));
    std::int64_t sum = plus_;
    for (const auto& number : inputs.all<Number>("in")) sum += number->value;
    std::ofstream(context.node().folder / "sum") << sum;
    context.metric("sum", static_cast<double>(sum), 1);
    context.say("alive: " + std::to_string(Number::alive) + ", stages: " + std::to_string(alive) +
                ", seed " + std::to_string(context.node().seed) +
                (context.node().smoke ? ", smoke on " : " on ") + context.node().device);
    return {{"out", std::make_shared<Number>(sum)}};
  }

  static inline int alive = 0;

 private:
  const std::int64_t plus_;
  const std::string act_;
};

/// Runs graphs of stages that add numbers.
class ExecutorTest : public testing::Test {
 protected:
  static inline const StageKind kAdding{
      "test.adding", [](ConfigReader& reader) -> Result<std::unique_ptr<Stage>> {
        std::int64_t plus = 0;
        std::string act;
        reader.read("plus", plus);
        reader.read("act", act);
        if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
        return std::unique_ptr<Stage>(std::make_unique<AddingStage>(plus, act));
      }};
  static inline const StageKind kForgetful{
      "test.forgetful", [](ConfigReader&) -> Result<std::unique_ptr<Stage>> {
        return std::unique_ptr<Stage>(std::make_unique<AddingStage>(0, ""));
      }};
  static inline const StageKind* const kKinds[] = {&kAdding, &kForgetful};

  static Node node(const std::string& id, std::int64_t plus, const std::string& act = "",
                   std::vector<std::size_t> from = {}) {
    Node result{
        id, id.substr(0, id.find('.')), "test.adding", {}, "/" + id.substr(0, id.find('.')), {}, 7};
    result.options = from_json({{"plus", plus}, {"act", act}});
    for (const std::size_t index : from)
      result.inputs.push_back({"in", index, "out", ArtifactType::kMetrics});
    return result;
  }

  ExecutorTest() {
    std::string name = testing::TempDir() + "executor-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ExecutorTest() override { std::filesystem::remove_all(folder_); }

  Executor executor(std::vector<Node> nodes) {
    return Executor({"test", 0, std::nullopt, "cpu", 1, std::move(nodes)}, kKinds,
                    {.emit = [this](const Event& e) { events_.push_back(e); },
                     .is_canceled = [this] { return canceled_; },
                     .take_save_request = [] { return false; },
                     .sync_metrics = [this](const std::string&) { ++flushes_; },
                     .on_failure =
                         [this](const std::string& node, const std::exception& error) {
                           failed_.push_back(node + ": " + error.what());
                         },
                     .measure_peak_live = [] { return 4096; },
                     .clock = [this] { return now_ += std::chrono::milliseconds(60); }});
  }
  /// An executor with created stages, for tests of plans.
  std::unique_ptr<Executor> created(std::vector<Node> nodes,
                                    std::span<const StageKind* const> kinds) {
    auto executor = std::make_unique<Executor>(
        Graph{"test", 0, std::nullopt, "cpu", 1, std::move(nodes)}, kinds,
        ExecutorWorld{.emit = [this](const Event& e) { events_.push_back(e); },
                      .is_canceled = [this] { return canceled_; }});
    EXPECT_TRUE(executor->create().empty());
    return executor;
  }
  /// nullopt if it was stopped.
  std::optional<ExitCode> run(std::vector<Node> nodes, bool smoke = false, bool resume = false) {
    Executor made = executor(std::move(nodes));
    EXPECT_TRUE(made.create().empty());
    try {
      return made.run({.folder = folder_, .smoke = smoke, .resume = resume}, "cpu");
    } catch (const Canceled&) {
      return std::nullopt;
    }
  }
  template <typename T>
  std::vector<T> all() const {
    std::vector<T> result;
    for (const Event& event : events_) {
      if (const T* found = std::get_if<T>(&event)) result.push_back(*found);
    }
    return result;
  }
  std::string only_error() const {
    const auto errors = all<Reported>();
    if (errors.size() != 1) return std::to_string(errors.size()) + " errors";
    const Diagnostic& d = errors[0].diagnostic;
    return name(d.code) + " " + d.pointer + ": " + d.message +
           (d.help.empty() ? "" : " | " + d.help);
  }

  std::filesystem::path folder_;
  std::vector<Event> events_;
  bool canceled_ = false;
  std::vector<std::string> failed_;
  int flushes_ = 0;
  std::chrono::steady_clock::time_point now_;
};

}  // namespace runner
