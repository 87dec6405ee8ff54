#include <memory>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/memory/policy.h"

namespace stages {
namespace {

class Novel final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    auto policy = std::make_shared<MemoryPolicy>();
    reader.read("micro_batch", policy->micro_batch);
    if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Novel>(std::move(policy)));
  }

  explicit Novel(std::shared_ptr<const MemoryPolicy> policy) : policy_(std::move(policy)) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    return {{"memory", policy_}};
  }

 private:
  const std::shared_ptr<const MemoryPolicy> policy_;
};

}  // namespace

extern const runner::StageKind kMemoryNovel = {.name = "memory.novel", .create = Novel::create};

}  // namespace stages
