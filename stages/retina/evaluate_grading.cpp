#include <algorithm>
#include <optional>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/decision.h"
#include "stages/evaluate/example_images.h"
#include "stages/evaluate/predictions_csv.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/tested_classes.h"
#include "stages/evaluate/trained_images.h"
#include "stages/retina/grade_metrics.h"

namespace stages {
namespace {

struct GradingConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::int64_t examples = 0;  // number of images in each group
  DecisionOptions decision;
  GradeReportOptions reported;
};

/// Returns a table with one line per sample: name,grade,prediction and the probability of every
/// grade; then its group, if samples have groups.
std::string grades_csv(const ClassifiedSamples& classified, const GradedSamples& samples) {
  const std::vector<std::string>& names = classified.names;
  const bool has_groups = !classified.groups.empty();
  const std::size_t grades = samples.grades.size();
  std::vector<std::string> fields = {"name", "grade", "prediction"};
  for (const std::string& grade : samples.grades) fields.push_back("p_" + grade);
  if (has_groups) fields.emplace_back("group");
  std::string text = csv_line(fields);
  for (std::size_t row = 0; row < names.size(); ++row) {
    fields = {names[row], samples.grades[static_cast<std::size_t>(samples.labels[row])],
              samples.grades[static_cast<std::size_t>(samples.predicted[row])]};
    for (std::size_t grade = 0; grade < grades; ++grade)
      fields.push_back(runner::csv_number(samples.scores[row * grades + grade]));
    if (has_groups) fields.push_back(classified.groups[row]);
    text += csv_line(fields);
  }
  return text;
}

GradedSamples graded_samples(const ClassifiedSamples& samples,
                             const std::vector<std::string>& grades) {
  GradedSamples graded{.grades = grades, .predicted = samples.predicted};
  for (std::int64_t row = 0; row < samples.logits.size(0); ++row) {
    const ClassScores scores = class_scores(samples.logits, row);
    graded.labels.push_back(samples.labels.const_data_ptr<std::int64_t>()[row]);
    if (samples.predicted.empty()) graded.predicted.push_back(scores.predicted());
    for (std::int64_t grade = 0; grade < scores.classes(); ++grade)
      graded.scores.push_back(scores.probability(grade));
  }
  return graded;
}

/// Adds the quadratic kappa that the grades with the largest probability would yield.
void add_kappa_of_largest(const ClassifiedSamples& samples, const GradedSamples& graded,
                          DecisionEffect& effect) {
  GradeCounts counts(std::ssize(graded.grades));
  for (std::int64_t row = 0; row < samples.logits.size(0); ++row)
    counts.add(graded.labels[static_cast<std::size_t>(row)],
               class_scores(samples.logits, row).predicted());
  const auto kappa = quadratic_kappa(counts);
  if (!kappa) return;
  effect.values.emplace_back("quadratic_kappa_argmax", *kappa);
  effect.json["quadratic_kappa_argmax"] = *kappa;
}

class GradingStage final : public runner::Stage {
 public:
  explicit GradingStage(GradingConfig config) : config_(std::move(config)) {}

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(network.test(), config_.allow_trained, context);
    const auto [logits, batch_size] = network.plan(context);
    config_.predictor.batch_size = batch_size;
    return planned_results(logits.size(0), logits.size(1));
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
    samples.labels = tested.trained_labels(samples.labels).contiguous();

    DecisionEffect effect =
        apply_decision(decision_for(checkpoint, config_.decision), config_.decision,
                       config_.reported.calibration_bins, samples, context);
    write_example_images(samples, checkpoint.classes, network.test(), config_.examples,
                         context.node().folder);
    const GradedSamples graded = graded_samples(samples, checkpoint.classes);
    if (!samples.predicted.empty()) add_kappa_of_largest(samples, graded, effect);
    if (config_.reported.csv) {
      runner::write_atomically(context.node().folder / "predictions.csv",
                               grades_csv(samples, graded));
    }
    return report_grades({.samples = samples,
                          .graded = graded,
                          .checkpoint = checkpoint,
                          .besides = std::move(effect.json),
                          .numbers = std::move(effect.values)},
                         config_.reported, context);
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    Predictor predictor(inputs, config_.predictor);
    const Checkpoint& checkpoint = predictor.checkpoint();
    check_grades(predictor.test(), checkpoint.classes, config_.reported.grading);
    TestedClasses(predictor.test().describe().classes, checkpoint.classes);
    if (checkpoint.pair_of == 0) return predictor;
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "the network has a single logit, for one class pair")
        .with_help("use evaluate.pairwise_ensemble, with the networks of all other class pairs");
  }

  GradingConfig config_;  // plan() reduces the batch size to what fits in memory
};

runner::Result<std::unique_ptr<runner::Stage>> create_grading(runner::ConfigReader& reader) {
  GradingConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  reader.read("examples", config.examples);
  config.predictor.flip = runner::choice<TestTimeFlip>(reader, "test_time_flip", kTestTimeFlips);
  config.predictor.pointer = reader.pointer();
  runner::read_or_auto(reader, "temperature", config.decision.temperature);
  config.predictor.calibrates = config.decision.temperature != 1;
  config.decision.ignores_cut_points =
      runner::choice<bool>(reader, "cut_points", {{"auto", false}, {"none", true}});
  config.reported = read_grade_report_options(reader);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<GradingStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluateGrading = {"evaluate.grading", create_grading};

}  // namespace stages
