#include <memory>
#include <optional>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/predictor.h"

namespace stages {
namespace {

/// The options of schemas/evaluate/novel.schema.json.
struct NovelConfig {
  std::int64_t batch_size = 0;
};

class Novel final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    NovelConfig config;
    reader.read("batch_size", config.batch_size);
    if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Novel>(config));
  }

  explicit Novel(const NovelConfig& config) : config_(config) {}

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    Predictor(inputs, config_.batch_size).plan(context);
    return runner::Outputs{};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor predictor(inputs, config_.batch_size);
    const ScopedMemoryBudget budget = predictor.hold_budget(context);
    const ClassifiedSamples samples = predictor.classify(context);
    const auto metrics = std::make_shared<Metrics>();
    metrics->values = {
        {"accuracy",
         samples.logits.argmax(1).eq(samples.labels).to(at::kDouble).mean().item<double>()}};
    for (const auto& [name, value] : metrics->values)
      context.metric("evaluate/" + name, value, predictor.checkpoint().step);
    return {{"metrics", metrics}};
  }

 private:
  const NovelConfig config_;
};

}  // namespace

extern const runner::StageKind kEvaluateNovel = {.name = "evaluate.novel", .create = Novel::create};

}  // namespace stages
