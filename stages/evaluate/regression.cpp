#include <algorithm>
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
#include "runner/shared/text/join.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/artifact/targets.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/regression_metrics.h"
#include "stages/evaluate/target_examples.h"
#include "stages/evaluate/trained_images.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct RegressionConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::int64_t bootstrap = 0;
  std::int64_t examples = 0;  // number of images in each group
  bool csv = false;
};

/// Writes a line for each sample: its name, then the true value, the prediction and the residual
/// for each target, and finally its group, if samples have groups.
void write_residuals(const std::filesystem::path& path, const ClassifiedSamples& samples,
                     const PredictedTargets& tested) {
  runner::AtomicFile file(path);
  const bool has_groups = !samples.groups.empty(), is_single = tested.names.size() == 1;
  std::vector<std::string> fields = {"name"};
  for (const std::string& name : tested.names)
    for (const char* what : {"target", "prediction", "residual"})
      fields.push_back(is_single ? what : what + ("_" + name));
  if (has_groups) fields.emplace_back("group");
  file.append(runner::csv_line(fields));
  const auto* target = tested.targets.const_data_ptr<double>();
  const auto* prediction = tested.predictions.const_data_ptr<double>();
  for (std::size_t row = 0; row < samples.names.size(); ++row) {
    fields = {samples.names[row]};
    for (std::size_t i = 0; i < tested.names.size(); ++i, ++target, ++prediction)
      for (const double number : {*target, *prediction, *target - *prediction})
        fields.push_back(runner::csv_number(number));
    if (has_groups) fields.push_back(samples.groups[row]);
    file.append(runner::csv_line(fields));
  }
  file.commit();
}

class RegressionStage final : public runner::Stage {
 public:
  explicit RegressionStage(RegressionConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return config_.bootstrap > 0; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    const auto planned = network.plan(context);
    check_outputs(planned.logits, network.checkpoint());
    config_.predictor.batch_size = planned.batch_size;
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    const Checkpoint& checkpoint = network.checkpoint();
    const ScopedMemoryBudget budget = network.hold_budget(context);
    const ClassifiedSamples samples = network.classify(context);
    report_remarks({&network.test()}, checkpoint.step, context);
    check_outputs(samples.logits, checkpoint);
    check_finite(samples);
    const PredictedTargets tested{
        .names = checkpoint.classes,
        .predictions = in_target_unit(samples.logits, checkpoint.targets).contiguous(),
        .targets = samples.labels.to(at::kDouble).contiguous()};
    const RegressionMetrics metrics =
        regression_metrics(tested, checkpoint.targets.mean, config_.bootstrap, context.node().seed);
    write_target_examples(samples.names, tested, checkpoint.targets.standard_deviation,
                          network.test(), config_.examples, context.node().folder);
    return report(samples, tested, metrics, checkpoint, context);
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    Predictor predictor(inputs, config_.predictor);
    const DatasetDescription test = predictor.test().describe();
    if (!has_targets(test)) {
      throw StageError(ErrorCode::kOptionConflict,
                       "evaluate.regression needs a test set with targets, but this test set has " +
                           std::string(test.classes.empty() ? "none" : "classes or labels"))
          .with_help(
              "connect a test set with targets, or use evaluate.classification or "
              "evaluate.multi_label");
    }
    const std::vector<std::string>& trained = predictor.checkpoint().classes;
    if (test.classes != trained) {
      throw StageError(
          ErrorCode::kOptionConflict,
          "the test set has the targets " + runner::listed(test.classes, test.classes.size(), "'") +
              ", but the network was trained on " + runner::listed(trained, trained.size(), "'"))
          .with_help("use a test set with the same targets in the same order");
    }
    return predictor;
  }

  static void check_outputs(const at::Tensor& outputs, const Checkpoint& checkpoint) {
    if (outputs.size(1) == std::ssize(checkpoint.classes)) return;
    throw StageError(ErrorCode::kOptionConflict,
                     "the network has " + std::to_string(outputs.size(1)) + " outputs for " +
                         std::to_string(checkpoint.classes.size()) + " targets")
        .with_help("evaluate a network with one output for each target");
  }

  static void check_finite(const ClassifiedSamples& samples) {
    const at::Tensor broken = samples.labels.isfinite().all(1).logical_not();
    if (!broken.any().item<bool>()) return;
    const auto row = broken.to(at::kByte).argmax().item<std::int64_t>();
    throw StageError(
        ErrorCode::kBadAnnotations,
        "'" + samples.names[static_cast<std::size_t>(row)] + "' has a target that is not finite")
        .with_help("correct it, or leave the sample out");
  }

  runner::Outputs report(const ClassifiedSamples& samples, const PredictedTargets& tested,
                         const RegressionMetrics& metrics, const Checkpoint& checkpoint,
                         runner::RunContext& context) const {
    nlohmann::ordered_json json = {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}};
    json.update(to_json(metrics, tested.names));
    json["skipped"] = samples.skipped;
    json["smoke"] = context.node().smoke;
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(),
                             json.dump(2, ' ', false, replace) + "\n");
    if (config_.csv) write_residuals(context.node().folder / "predictions.csv", samples, tested);
    const auto numbers = std::make_shared<Metrics>();
    numbers->values = summary(metrics, tested.names);
    for (const auto& [name, value] : numbers->values)
      context.metric("evaluate/" + name, value, checkpoint.step);
    say_undefined(metrics, tested.names, context);
    if (samples.skipped > 0) {
      context.say(std::to_string(samples.skipped) +
                  " samples were skipped because they could not be read");
    }
    context.say(headline(metrics));
    return {{"metrics", numbers}};
  }

  static void say_undefined(const RegressionMetrics& metrics, const std::vector<std::string>& names,
                            runner::RunContext& context) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (metrics.of_targets[i].r2) continue;
      context.say("R² of '" + names[i] + "' is undefined: all test samples have the same target");
    }
  }

  // plan() reduces the batch size to what fits in memory
  RegressionConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_regression_evaluation(
    runner::ConfigReader& reader) {
  RegressionConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  config.predictor.flip = runner::choice<TestTimeFlip>(reader, "test_time_flip", kTestTimeFlips);
  config.predictor.pointer = reader.pointer();
  config.predictor.target = kTarget;
  config.predictor.metric_bytes = regression_metric_bytes;
  reader.read("bootstrap", config.bootstrap);
  reader.read("examples", config.examples);
  reader.read("csv", config.csv);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<RegressionStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateRegression = {"evaluate.regression",
                                                      create_regression_evaluation};

}  // namespace stages
