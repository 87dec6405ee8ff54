#include "stages/evaluate/decision.h"

#include <torch/types.h>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/classification_metrics.h"

namespace stages {
namespace {

constexpr std::int64_t kTwoClasses = 2;

void say_decision(const FittedDecision& decision, const DecisionOptions& options,
                  runner::RunContext& context) {
  constexpr int kDigits = 4;
  const auto source = [](bool is_given) {
    return is_given ? "" : ", which was fitted on the validation data";
  };
  if (decision.temperature != 1)
    context.say("logits are divided by the temperature " +
                runner::decimal(decision.temperature, kDigits) +
                source(options.temperature.has_value()));
  if (decision.threshold)
    context.say("the second class is predicted at a probability of at least " +
                runner::decimal(*decision.threshold, kDigits) +
                source(options.threshold.has_value()));
  if (decision.ordinal != OrdinalHead::kNone && !decision.is_fitted())
    context.say(
        "the predicted class is the first at which the cumulative probability reaches one half, "
        "since " +
        std::string(name_of(decision.ordinal)) + " learned the order of the classes");
  if (decision.cut_points.empty()) return;
  std::string cuts;
  for (const double cut : decision.cut_points)
    cuts += (cuts.empty() ? "" : ", ") + runner::decimal(cut, kDigits);
  context.say("grades are separated at the expected grades " + cuts +
              ", which were fitted on the validation data");
}

/// Adds the sensitivity and specificity for the second class, if they are defined.
void add_quality_of_second(const ClassifiedSamples& samples, DecisionEffect& effect) {
  double positives = 0, hits = 0, negatives = 0, left_alone = 0;
  for (std::int64_t row = 0; row < samples.labels.size(0); ++row) {
    const bool is_second = samples.labels[row].item<std::int64_t>() == 1,
               is_predicted = samples.predicted[static_cast<std::size_t>(row)] == 1;
    ++(is_second ? positives : negatives);
    if (is_second == is_predicted) ++(is_second ? hits : left_alone);
  }
  if (positives > 0) effect.values.emplace_back("sensitivity", hits / positives);
  if (negatives > 0) effect.values.emplace_back("specificity", left_alone / negatives);
}

}  // namespace

FittedDecision decision_for(const Checkpoint& checkpoint, const DecisionOptions& options) {
  FittedDecision decision = decision_of(checkpoint);
  if (options.temperature) decision.temperature = *options.temperature;
  if (options.ignores_cut_points) decision.cut_points.clear();
  if (!options.threshold) return decision;
  decision.threshold = options.threshold;
  if (std::ssize(checkpoint.classes) == kTwoClasses) return decision;
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           "threshold is for two classes, but the network has " +
                               std::to_string(checkpoint.classes.size()))
      .at("/threshold")
      .with_help("set threshold: auto");
}

DecisionEffect apply_decision(const FittedDecision& decision, const DecisionOptions& options,
                              std::int64_t calibration_bins, ClassifiedSamples& samples,
                              runner::RunContext& context) {
  DecisionEffect effect;
  say_decision(decision, options, context);
  const at::Tensor logits = samples.logits;
  if (decision.temperature != 1)
    samples.logits =
        logits.to(at::promote_types(logits.scalar_type(), at::kFloat)) / decision.temperature;
  if (decision.decides()) {
    for (std::int64_t row = 0; row < logits.size(0); ++row)
      samples.predicted.push_back(decision.predicted(class_scores(samples.logits, row)));
  }
  if (decision.temperature != 1) {
    effect.values.emplace_back("temperature", decision.temperature);
    const auto before = classification_metrics(logits, samples.labels, /*top_k=*/{});
    effect.values.emplace_back("log_loss_uncalibrated", before.log_loss);
    if (calibration_bins > 0)
      effect.values.emplace_back(
          "calibration_error_uncalibrated",
          calibration_of(logits, samples.labels, calibration_bins, samples.predicted).error);
  }
  if (decision.threshold) {
    effect.values.emplace_back("threshold", *decision.threshold);
    add_quality_of_second(samples, effect);
  }
  for (const auto& [name, value] : effect.values) effect.json[name] = value;
  if (!decision.cut_points.empty()) effect.json["cut_points"] = decision.cut_points;
  return effect;
}

}  // namespace stages
