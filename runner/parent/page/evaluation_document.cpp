#include "runner/parent/page/evaluation_document.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/parent/page/capitalized.h"
#include "runner/parent/record/recorded_example.h"
#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/caption_similarity.h"
#include "runner/parent/report/episode_pictures.h"
#include "runner/parent/report/label_curves.h"
#include "runner/parent/report/prediction_table.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/parent/report/target_predictions.h"
#include "runner/parent/report/training_picture.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kMostWrong = 20;     // wrong predictions shown
constexpr std::size_t kMostOpenRows = 20;  // maximum number of rows in the table of classes before
                                           // it is folded
constexpr std::size_t kMostConfused = 10;  // maximum number of class pairs shown

/// "mean per class" for "evaluate/mean_per_class".
std::string metric_words(const std::string& metric) {
  std::string words = metric.substr(metric.find('/') + 1);
  std::ranges::replace(words, '_', ' ');
  return words;
}

/// True if the metric is a fraction that reads best as a percentage, such as an accuracy.
bool is_share(const std::string& metric, double value) {
  constexpr std::array<std::string_view, 12> kShares = {
      "top1",   "top5",           "accuracy",          "precision",   "recall",      "f1",
      "chance", "mean_per_class", "calibration_error", "sensitivity", "specificity", "deviation"};
  const std::size_t family = metric.find('/') + 1;
  const std::string name = metric.substr(family, metric.find('/', family) - family);
  const auto is_in = [&](std::string_view part) { return name.find(part) != name.npos; };
  return value >= 0 && value <= 1 && std::ranges::any_of(kShares, is_in);
}

/// Returns "80.0%" for an accuracy; four significant digits for other values.
std::string metric_value(const std::string& metric, double value) {
  if (is_share(metric, value)) return percent(value) + "%";
  if (!std::isfinite(value) || std::trunc(value) == value) return shown_number(value);
  return significant(value, 4);
}

/// Returns the metrics of an evaluation. Leaves out the interval of its accuracy, which is shown
/// above the table.
Table metrics_of(const RunDetails& details, const std::string& node) {
  constexpr std::array<std::string_view, 3> kEnds = {"evaluate/top1_low", "evaluate/top1_high",
                                                     "evaluate/half_width"};
  Table table{"Metrics", {{"metric", "value"}}, false};
  for (const RunDetails::Metric& metric : details.metrics) {
    if (metric.node == node && metric.name.starts_with("evaluate/") &&
        std::ranges::find(kEnds, metric.name) == kEnds.end())
      table.rows.push_back({metric_words(metric.name), metric_value(metric.name, metric.value)});
  }
  return table;
}

Table classes_of(const RecordedEvaluation& evaluation) {
  Table table{"Classes",
              {{"class", "samples", "precision, %", "recall, %", "F1, %"}},
              evaluation.classes.size() > kMostOpenRows};
  for (const RecordedEvaluation::Class& one : evaluation.classes) {
    const double sum = one.precision + one.recall;
    table.rows.push_back({one.name, std::to_string(one.support), percent(one.precision),
                          percent(one.recall),
                          percent(sum > 0 ? 2 * one.precision * one.recall / sum : 0)});
  }
  return table;
}

Table confusions_of(const RecordedEvaluation& evaluation) {
  Table table{"Most frequent confusions", {{"true class", "predicted as", "times"}}, false};
  for (const Confusion& one : most_confused(evaluation, kMostConfused))
    table.rows.push_back({one.truth, one.predicted, std::to_string(one.count)});
  return table;
}

/// Returns the wrong predictions with the highest probability; only a heading if there are none.
Table most_wrong(const RunDetails& details, const std::string& node) {
  Table table{"Most confident wrong predictions",
              {{"sample", "true class", "predicted as", "probability, %"}},
              false};
  const auto predictions = read_prediction_table(details.run.folder, node);
  if (!predictions || !predictions->has_classes) return table;
  const auto column = std::ranges::find(predictions->columns, "probability");
  if (column == predictions->columns.end()) return table;
  const auto at = static_cast<std::size_t>(column - predictions->columns.begin());
  std::vector<std::pair<double, const std::vector<std::string>*>> wrong;
  for (const auto& row : predictions->rows) {
    if (row[predictions->label] != row[predictions->predicted])
      wrong.emplace_back(std::strtod(row[at].c_str(), nullptr), &row);
  }
  std::ranges::stable_sort(wrong, std::greater{}, &decltype(wrong)::value_type::first);
  wrong.resize(std::min(wrong.size(), kMostWrong));
  for (const auto& [probability, row] : wrong) {
    table.rows.push_back({(*row)[predictions->name], (*row)[predictions->label],
                          (*row)[predictions->predicted], percent(probability)});
  }
  return table;
}

/// Returns the example images of each group, in the order of their list; each group has a gallery.
std::vector<std::pair<std::string, Gallery>> examples_of(const RunDetails& details,
                                                         const std::string& node) {
  std::vector<std::pair<std::string, Gallery>> groups;
  for (RecordedExample& one :
       recorded_examples(RunLayout(details.run.folder).node(node).folder())) {
    if (groups.empty() || groups.back().first != one.group)
      groups.emplace_back(one.group, Gallery{});
    groups.back().second.photos.push_back(
        {std::move(one.jpeg), std::move(one.name), std::move(one.lines)});
  }
  return groups;
}

void add_examples(Document& document, const RunDetails& details, const std::string& node) {
  for (auto& [group, gallery] : examples_of(details, node)) {
    document.part(group.empty() ? "Examples" : capitalized(group));
    document.add(std::move(gallery));
  }
}

void add_charts(Document& document, const RecordedEvaluation& evaluation, const std::string& name) {
  if (!evaluation.confusion.empty()) document.add(Figure{draw_confusion(evaluation, name)});
  if (!evaluation.pairs.empty()) document.add(Figure{draw_pairs(evaluation, name)});
  if (!evaluation.episodes.empty()) document.add(Figure{draw_episodes(evaluation, name)});
  if (evaluation.macro || evaluation.micro) document.add(Figure{draw_roc(evaluation, name)});
  if (evaluation.calibration_error) document.add(Figure{draw_calibration(evaluation, name)});
}

void add_evaluation(Document& document, const RunDetails& details,
                    const RecordedEvaluation& evaluation, const std::string& name) {
  document.section("Results of " + evaluation.title);
  document.say(
      "Top-1 accuracy " + percent(evaluation.accuracy) + "% (95% interval " +
      percent(evaluation.low) + "–" + percent(evaluation.high) + "%), " +
      std::to_string(evaluation.samples) + " samples of " +
      std::to_string(evaluation.classes.size()) + " classes" +
      (evaluation.is_smoke ? "; a smoke run: only some of the samples were evaluated." : "."));
  document.add(metrics_of(details, evaluation.node));
  add_charts(document, evaluation, name);
  if (Table confusions = confusions_of(evaluation); confusions.rows.size() > 1)
    document.add(std::move(confusions));
  document.add(classes_of(evaluation));
  if (Table wrong = most_wrong(details, evaluation.node); wrong.rows.size() > 1)
    document.add(std::move(wrong));
  add_examples(document, details, evaluation.node);
}

}  // namespace

void add_evaluations(Document& document, const RunDetails& details, const RunReport& report) {
  for (const RecordedEvaluation& evaluation : report.evaluations)
    add_evaluation(document, details, evaluation, report.recipe);
  for (const RecordedMeasures& measures : report.measures) {
    document.section("Results of " + measures.title);
    if (measures.is_smoke) document.say("A smoke run: only some of the samples were evaluated.");
    document.add(metrics_of(details, measures.node));
    const auto curves = read_label_curves(details.run.folder, measures.node);
    if (curves && !curves->curves.empty())
      document.add(Figure{draw_label_curves(*curves, report.recipe)});
    const auto targets = read_target_predictions(details.run.folder, measures.node);
    if (targets && !targets->empty())
      document.add(Figure{draw_predictions(*targets, report.recipe)});
    if (const auto similarity = read_similarity(details.run.folder, measures.node))
      document.add(Figure{draw_similarity(*similarity, report.recipe)});
    add_examples(document, details, measures.node);
  }
}

}  // namespace runner
