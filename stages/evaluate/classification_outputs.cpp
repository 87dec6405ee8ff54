#include "stages/evaluate/classification_outputs.h"

#include <algorithm>
#include <iterator>

#include <torch/types.h>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/classification_report.h"
#include "stages/evaluate/csv.h"
#include "stages/evaluate/evaluation_results.h"

namespace stages {
namespace {

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

void write(const Classified& classified, const ClassificationCurves& curves, const ReportOptions& options,
           const runner::RunContext& context) {
  const auto& [samples, metrics, classes, checkpoint, besides, values] = classified;
  nlohmann::ordered_json json = {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}};
  json.update(to_json(metrics, classes));
  for (const auto& [name, value] : summary(curves)) json[name] = value;
  json.update(besides);
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
    runner::write_atomically(context.node().folder / "confusion_matrix.csv", confusion_csv(metrics.confusion, classes));
  }
  if (options.csv)
    runner::write_atomically(context.node().folder / "predictions.csv", predictions_csv(samples, classes));
}

}  // namespace

ReportOptions read_report_options(runner::ConfigReader& reader) {
  ReportOptions options;
  reader.read("top_k", options.top_k);
  reader.read("csv", options.csv);
  std::ranges::sort(options.top_k);
  return options;
}

runner::Outputs report_classification(const Classified& classified, const ReportOptions& options,
                                      runner::RunContext& context) {
  const auto& [samples, metrics, classes, checkpoint, besides, values] = classified;
  const ClassificationCurves curves =
      classification_curves(samples.logits, samples.labels, options.calibration_bins, samples.predicted);
  write(classified, curves, options, context);
  const auto numbers = std::make_shared<Metrics>();
  numbers->values = summary(metrics);
  for (auto& value : summary(curves)) numbers->values.push_back(std::move(value));
  std::ranges::copy(values, std::back_inserter(numbers->values));
  for (const auto& [name, value] : numbers->values) context.metric("evaluate/" + name, value, checkpoint.step);
  const auto predictions = std::make_shared<Predictions>();
  predictions->names = samples.names;
  predictions->scores = shares_of_rows(samples.logits);
  predictions->labels = samples.labels;
  predictions->classes = classes;

  say_left_out(options.top_k, metrics.confusion.classes(), context);
  if (metrics.confusion.classes() > kLargestMatrix) {
    context.say("the confusion matrix is left out: more than " + std::to_string(kLargestMatrix) + " classes");
  }
  if (samples.skipped > 0) {
    context.say(std::to_string(samples.skipped) + " samples were skipped because they could not be read");
  }
  context.say(headline(metrics));
  return {{"metrics", numbers}, {"predictions", predictions}};
}

}  // namespace stages
