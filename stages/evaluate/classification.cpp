#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/disk/new_file.h"
#include "runner/stage/plan_context.h"
#include "runner/stage/run_context.h"
#include "runner/stage/run_layout.h"
#include "runner/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/classification_report.h"
#include "stages/evaluate/csv.h"
#include "stages/evaluate/evaluation_results.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/tested_classes.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct ClassificationConfig {
  Predictor::Options predictor;
  std::vector<std::int64_t> top_k;
  bool csv = false;
};

/// A name for each output of the network, which may have more of them than it was trained with classes.
std::vector<std::string> output_names(std::vector<std::string> classes, std::int64_t outputs) {
  while (static_cast<std::int64_t>(classes.size()) < outputs) {
    classes.push_back("output " + std::to_string(classes.size()));
  }
  return classes;
}

/// The softmax of each row in float32, computed in float64 a few rows at a time: of all rows at once it would take five
/// times what it gives.
at::Tensor shares_of_rows(const at::Tensor& logits) {
  constexpr std::int64_t kAtOnce = 4096;
  const std::int64_t rows = std::max<std::int64_t>(1, kAtOnce / logits.size(1));
  at::Tensor shares = torch::empty_like(logits, at::kFloat);
  for (std::int64_t row = 0; row < logits.size(0); row += rows) {
    const std::int64_t end = std::min(row + rows, logits.size(0));
    shares.slice(0, row, end).copy_(logits.slice(0, row, end).to(at::kDouble).softmax(1));
  }
  return shares;
}

void say_left_out(const std::vector<std::int64_t>& top_k, std::int64_t classes, runner::RunContext& context) {
  for (const std::int64_t k : top_k) {
    if (k < classes) continue;
    context.say("top-" + std::to_string(k) + " is left out: with " + std::to_string(classes) +
                " classes it is 100 % by definition");
  }
}

class ClassificationStage : public runner::Stage {
 public:
  explicit ClassificationStage(ClassificationConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs, runner::PlanContext& context) override {
    const auto [logits, batch_size] = predictor(inputs).plan(context);
    config_.predictor.batch_size = batch_size;
    const auto predictions = std::make_shared<Predictions>();
    predictions->scores = torch::empty_like(logits, at::kFloat);
    predictions->labels = torch::empty({logits.size(0)}, logits.options().dtype(at::kLong));
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}, {"predictions", predictions}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor network = predictor(inputs);
    const Checkpoint& checkpoint = network.checkpoint();
    const ScopedMemoryBudget budget = network.hold_budget(context);
    const TestedClasses tested(network.test().describe().classes, checkpoint.classes);
    if (const std::string absent = tested.absent_text(); !absent.empty()) context.say(absent);
    ClassifiedSamples samples = network.classify(context);
    samples.labels = tested.trained_labels(samples.labels);
    const std::vector<std::string> classes = output_names(checkpoint.classes, samples.logits.size(1));
    const ClassificationMetrics metrics =
        classification_metrics(samples.logits, samples.labels, config_.top_k, tested.present());
    const ClassificationCurves curves = classification_curves(samples.logits, samples.labels);
    write(samples, metrics, curves, classes, checkpoint, context);
    return report(samples, metrics, curves, classes, checkpoint, context);
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    Predictor predictor(inputs, config_.predictor);
    const DatasetDescription test = predictor.test().describe();
    TestedClasses(test.classes, predictor.checkpoint().classes);
    if (std::ranges::find(test.tensors, "label", &TensorSpec::name) == test.tensors.end()) {
      throw StageError(ErrorCode::kLabelOutOfRange, "the test set has no labels")
          .with_help("evaluation compares predictions with labels: wire a labelled data set");
    }
    return predictor;
  }

  void write(const ClassifiedSamples& samples, const ClassificationMetrics& metrics, const ClassificationCurves& curves,
             const std::vector<std::string>& classes, const Checkpoint& checkpoint,
             const runner::RunContext& context) const {
    nlohmann::ordered_json json = {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}};
    json.update(to_json(metrics, classes));
    for (const auto& [name, value] : summary(curves)) json[name] = value;
    json["skipped"] = samples.skipped;
    json["smoke"] = context.node().smoke;
    // Class names come from folders, which need not be UTF-8.
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(),
                             json.dump(2, ' ', false, replace) + "\n");
    runner::write_atomically(context.node().folder / "evaluation_results.json",
                             evaluation_results(samples, metrics, classes));
    runner::write_atomically(runner::NodeLayout(context.node().folder).curves(),
                             to_json(curves, classes).dump(-1, ' ', false, replace) + "\n");
    runner::write_atomically(context.node().folder / "report.txt", report_text(metrics, classes));
    if (metrics.confusion.classes() <= kLargestMatrix) {
      runner::write_atomically(context.node().folder / "confusion_matrix.csv",
                               confusion_csv(metrics.confusion, classes));
    }
    if (config_.csv)
      runner::write_atomically(context.node().folder / "predictions.csv", predictions_csv(samples, classes));
  }

  runner::Outputs report(const ClassifiedSamples& samples, const ClassificationMetrics& metrics,
                         const ClassificationCurves& curves, const std::vector<std::string>& classes,
                         const Checkpoint& checkpoint, runner::RunContext& context) const {
    const auto numbers = std::make_shared<Metrics>();
    numbers->values = summary(metrics);
    for (auto& value : summary(curves)) numbers->values.push_back(std::move(value));
    for (const auto& [name, value] : numbers->values) context.metric("evaluate/" + name, value, checkpoint.step);
    const auto predictions = std::make_shared<Predictions>();
    predictions->names = samples.names;
    predictions->scores = shares_of_rows(samples.logits);
    predictions->labels = samples.labels;
    predictions->classes = classes;

    say_left_out(config_.top_k, metrics.confusion.classes(), context);
    if (metrics.confusion.classes() > kLargestMatrix) {
      context.say("the confusion matrix is left out: more than " + std::to_string(kLargestMatrix) + " classes");
    }
    if (samples.skipped > 0) {
      context.say(std::to_string(samples.skipped) + " samples were skipped because they could not be read");
    }
    context.say(headline(metrics));
    return {{"metrics", numbers}, {"predictions", predictions}};
  }

  ClassificationConfig config_;  // its batch is no larger than what fits, once that has been planned
};

runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
  ClassificationConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  config.predictor.flip = runner::choice<TestTimeFlip>(reader, "test_time_flip", kTestTimeFlips);
  config.predictor.pointer = reader.pointer();
  reader.read("top_k", config.top_k);
  reader.read("csv", config.csv);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  std::ranges::sort(config.top_k);
  return std::unique_ptr<runner::Stage>(std::make_unique<ClassificationStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateClassification = {"evaluate.classification", create};

}  // namespace stages
