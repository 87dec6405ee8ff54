#include <optional>
#include <string>

#include "runner/config_reader.h"
#include "runner/stage.h"
#include "stages/artifacts.h"
#include "stages/stages.h"

namespace stages {
namespace {

/// Hands its options on: what they mean for a training is decided where the training is known.
class Policy final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    auto policy = std::make_shared<MemoryPolicy>();
    runner::Value micro_batch;
    std::string precision, budget;
    reader.read("micro_batch", micro_batch);
    reader.read("precision", precision);
    reader.read("budget", budget);
    if (const auto* units = std::get_if<std::int64_t>(&micro_batch.data)) policy->micro_batch = *units;
    policy->precision = precision_from(precision);
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Policy>(std::move(policy)));
  }

  explicit Policy(std::shared_ptr<const MemoryPolicy> policy) : policy_(std::move(policy)) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override { return {{"memory", policy_}}; }

 private:
  const std::shared_ptr<const MemoryPolicy> policy_;
};

}  // namespace

const runner::StageKind kMemoryPolicy = {.name = "memory.policy", .create = Policy::create};

}  // namespace stages
