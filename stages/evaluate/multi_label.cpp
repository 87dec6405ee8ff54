#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/csv.h"
#include "stages/artifact/label_ranking.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/label_thresholds.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/label_curves.h"
#include "stages/evaluate/label_examples.h"
#include "stages/evaluate/multi_label_metrics.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/tested_classes.h"
#include "stages/evaluate/trained_images.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct MultiLabelConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::optional<double> threshold;  // nullopt: as chosen in training
  std::int64_t examples = 0;        // number of images in each group
  bool csv = false;
};

/// Writes a line for each sample, without collecting the lines first.
void write_predictions(const std::filesystem::path& path, const LabeledSamples& tested) {
  runner::AtomicFile file(path);
  std::vector<std::string> fields = {"name", "label", "predicted", "correct"};
  for (const std::string& label : tested.labels) fields.push_back("p_" + label);
  file.append(runner::csv_line(fields));
  const std::int64_t width = tested.samples.logits.size(1);
  const auto* const logits = tested.samples.logits.const_data_ptr<float>();
  for (std::size_t row = 0; row < tested.samples.names.size(); ++row) {
    const auto& [labels, predicted] = named_labels(tested, row);
    fields = {tested.samples.names[row], joined_labels(labels), joined_labels(predicted),
              labels == predicted ? "true" : "false"};
    const std::int64_t first = static_cast<std::int64_t>(row) * width;
    for (std::int64_t label = 0; label < width; ++label)
      fields.push_back(
          runner::csv_number(label_probability(static_cast<double>(logits[first + label]))));
    file.append(runner::csv_line(fields));
  }
  file.commit();
}

class MultiLabelStage final : public runner::Stage {
 public:
  explicit MultiLabelStage(MultiLabelConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    const auto planned = network.plan(context);
    check_logits(planned.logits, network.checkpoint());
    config_.predictor.batch_size = planned.batch_size;
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    const Checkpoint& checkpoint = network.checkpoint();
    const ScopedMemoryBudget budget = network.hold_budget(context);
    const TestedClasses known(network.test().describe().classes, checkpoint.classes);
    if (const std::string absent = known.absent_text(); !absent.empty()) context.say(absent);
    LabeledSamples tested{.samples = network.classify(context),
                          .labels = checkpoint.classes,
                          .present = known.present(),
                          .thresholds = {}};
    report_remarks({&network.test()}, checkpoint.step, context);
    check_logits(tested.samples.logits, checkpoint);
    tested.samples.logits = tested.samples.logits.to(at::kFloat).contiguous();
    tested.samples.labels = trained_order(tested.samples, known);
    tested.thresholds = thresholds(checkpoint, context);
    const MultiLabelMetrics metrics = multi_label_metrics(
        tested.samples.logits, tested.samples.labels, tested.thresholds, tested.present);
    write_label_examples(tested, network.test(), config_.examples, context.node().folder);
    return report(tested, metrics, checkpoint, context);
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    Predictor predictor(inputs, config_.predictor);
    const DatasetDescription test = predictor.test().describe();
    if (!has_label_sets(test)) {
      throw StageError(
          ErrorCode::kOptionConflict,
          "evaluate.multi_label needs a test set with label sets, but this test set "
          "has " +
              std::string(test.classes.empty() ? "no classes" : "one class per sample"))
          .with_help("connect a test set with labels, or use evaluate.classification");
    }
    TestedClasses(test.classes, predictor.checkpoint().classes);
    return predictor;
  }

  static void check_logits(const at::Tensor& logits, const Checkpoint& checkpoint) {
    if (logits.size(1) == std::ssize(checkpoint.classes)) return;
    throw StageError(ErrorCode::kOptionConflict,
                     "the network has " + std::to_string(logits.size(1)) + " outputs for " +
                         std::to_string(checkpoint.classes.size()) + " labels")
        .with_help("evaluate a network with one logit for each label");
  }

  /// Returns the labels of the samples in the order of the network's labels.
  static at::Tensor trained_order(const ClassifiedSamples& samples, const TestedClasses& known) {
    at::Tensor ordered = torch::zeros(samples.logits.sizes(), at::kByte);
    const at::Tensor places = known.trained_labels(torch::arange(samples.labels.size(1)));
    ordered.index_copy_(1, places, samples.labels.ne(0).to(at::kByte));
    return ordered;
  }

  std::vector<double> thresholds(const Checkpoint& checkpoint, runner::RunContext& context) const {
    const auto labels = std::ssize(checkpoint.classes);
    if (config_.threshold)
      return std::vector<double>(static_cast<std::size_t>(labels), *config_.threshold);
    std::vector<double> chosen = thresholds_of(checkpoint.validation, labels);
    if (!chosen.empty()) return chosen;
    context.say(
        "labels are predicted at a probability of at least 0.5: these weights have no thresholds "
        "from validation data");
    return std::vector<double>(static_cast<std::size_t>(labels), kUsualThreshold);
  }

  runner::Outputs report(const LabeledSamples& tested, const MultiLabelMetrics& metrics,
                         const Checkpoint& checkpoint, runner::RunContext& context) const {
    nlohmann::ordered_json json = {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}};
    json.update(to_json(metrics, tested.labels));
    json["skipped"] = tested.samples.skipped;
    json["smoke"] = context.node().smoke;
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(),
                             json.dump(2, ' ', false, replace) + "\n");
    const auto curves =
        label_curves(tested.samples.logits, tested.samples.labels, metrics, tested.labels);
    runner::write_atomically(runner::NodeLayout(context.node().folder).curves(),
                             curves.dump(-1, ' ', false, replace) + "\n");
    runner::write_atomically(context.node().folder / "report.txt",
                             report_text(metrics, tested.labels));
    if (config_.csv) write_predictions(context.node().folder / "predictions.csv", tested);
    const auto numbers = std::make_shared<Metrics>();
    numbers->values = summary(metrics);
    for (const auto& [name, value] : numbers->values)
      context.metric("evaluate/" + name, value, checkpoint.step);
    if (tested.samples.skipped > 0) {
      context.say(std::to_string(tested.samples.skipped) +
                  " samples were skipped because they could not be read");
    }
    context.say(headline(metrics));
    return {{"metrics", numbers}};
  }

  // plan() reduces the batch size to what fits in memory
  MultiLabelConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_multi_label_evaluation(
    runner::ConfigReader& reader) {
  MultiLabelConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  config.predictor.flip = runner::choice<TestTimeFlip>(reader, "test_time_flip", kTestTimeFlips);
  config.predictor.pointer = reader.pointer();
  config.predictor.target = kLabelSet;
  config.predictor.metric_bytes = [](std::int64_t samples, std::int64_t labels) {
    return multi_label_metric_bytes(samples) + samples * labels;  // plus the labels in the
                                                                  // network's order
  };
  runner::read_or_auto(reader, "threshold", config.threshold);
  reader.read("examples", config.examples);
  reader.read("csv", config.csv);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<MultiLabelStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateMultiLabel = {"evaluate.multi_label",
                                                      create_multi_label_evaluation};

}  // namespace stages
