#include <algorithm>
#include <optional>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/decision.h"
#include "stages/evaluate/example_images.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/tested_classes.h"
#include "stages/evaluate/trained_images.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct ClassificationConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::int64_t examples = 0;  // number of images in each group
  DecisionOptions decision;
  ReportOptions reported;
};

/// Returns a name for each output of the network, which may have more outputs than training
/// classes.
std::vector<std::string> output_names(std::vector<std::string> classes, std::int64_t outputs) {
  while (static_cast<std::int64_t>(classes.size()) < outputs) {
    classes.push_back("output " + std::to_string(classes.size()));
  }
  return classes;
}

class ClassificationStage : public runner::Stage {
 public:
  explicit ClassificationStage(ClassificationConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    const auto [logits, batch_size] = network.plan(context);
    config_.predictor.batch_size = batch_size;
    const auto predictions = std::make_shared<Predictions>();
    predictions->scores = torch::empty_like(logits, at::kFloat);
    predictions->labels = torch::empty({logits.size(0)}, logits.options().dtype(at::kLong));
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}, {"predictions", predictions}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor network = predictor(inputs);
    const std::int64_t trained =
        check_trained_images(network.test(), config_.allow_trained, context);
    const Checkpoint& checkpoint = network.checkpoint();
    const ScopedMemoryBudget budget = network.hold_budget(context);
    const TestedClasses tested(network.test().describe().classes, checkpoint.classes);
    if (const std::string absent = tested.absent_text(); !absent.empty()) context.say(absent);
    ClassifiedSamples samples = network.classify(context);
    samples.trained = trained;
    report_remarks({&network.test()}, checkpoint.step, context);
    samples.labels = tested.trained_labels(samples.labels);
    const std::vector<std::string> classes =
        output_names(checkpoint.classes, samples.logits.size(1));
    const DecisionEffect effect =
        apply_decision(decision_for(checkpoint, config_.decision), config_.decision,
                       config_.reported.calibration_bins, samples, context);
    const ClassificationMetrics metrics =
        classification_metrics(samples.logits, samples.labels, config_.reported.top_k,
                               tested.present(), samples.predicted);
    write_example_images(samples, classes, network.test(), config_.examples, context.node().folder);
    return report_classification(
        {samples, metrics, classes, checkpoint, effect.json, effect.values}, config_.reported,
        context);
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    Predictor predictor(inputs, config_.predictor);
    const DatasetDescription test = predictor.test().describe();
    TestedClasses(test.classes, predictor.checkpoint().classes);
    decision_for(predictor.checkpoint(), config_.decision);
    if (std::ranges::find(test.tensors, "label", &TensorSpec::name) == test.tensors.end()) {
      throw StageError(ErrorCode::kLabelOutOfRange, "the test set has no labels")
          .with_help("evaluation compares predictions with labels: connect a labeled dataset");
    }
    return predictor;
  }

  // plan() reduces the batch size to what fits in memory
  ClassificationConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
  ClassificationConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  reader.read("examples", config.examples);
  config.predictor.flip = runner::choice<TestTimeFlip>(reader, "test_time_flip", kTestTimeFlips);
  config.predictor.pointer = reader.pointer();
  runner::read_or_auto(reader, "temperature", config.decision.temperature);
  config.predictor.calibrates = config.decision.temperature != 1;
  runner::read_or_auto(reader, "threshold", config.decision.threshold);
  config.reported = read_report_options(reader);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<ClassificationStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateClassification = {"evaluate.classification", create};

}  // namespace stages
