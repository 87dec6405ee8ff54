#include "runner/parent/page/evaluation_document.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/caption_similarity.h"
#include "runner/parent/report/episode_pictures.h"
#include "runner/parent/report/prediction_table.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/parent/report/target_predictions.h"
#include "runner/parent/report/training_picture.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

constexpr std::size_t kMostWrong = 20;     // wrong predictions shown
constexpr std::size_t kMostOpenRows = 20;  // rows in the table of classes; a longer one is folded
constexpr std::size_t kLargestExampleList = 1 << 20, kLargestExample = 256 << 10;  // bytes
constexpr std::size_t kMostExamples = 100;
constexpr std::size_t kMostConfused = 10;  // pairs of classes shown

/// "mean per class" for "evaluate/mean_per_class".
std::string metric_words(const std::string& metric) {
  std::string words = metric.substr(metric.find('/') + 1);
  std::ranges::replace(words, '_', ' ');
  return words;
}

Table metrics_of(const RunDetails& details, const std::string& node) {
  Table table{"Metrics", {{"metric", "value"}}, false};
  for (const RunDetails::Metric& metric : details.metrics) {
    if (metric.node == node && metric.name.starts_with("evaluate/"))
      table.rows.push_back({metric_words(metric.name), shown_number(metric.value)});
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

/// The wrong predictions with the highest probability; only a heading if there are none.
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

/// Returns the text for an example image: about a classifier's prediction, or about the captions
/// retrieved for it.
std::vector<std::string> example_lines(const nlohmann::ordered_json& example,
                                       const std::string& name) {
  const JsonFields fields(example, "an example");
  if (!example.contains("caption"))
    return {fields.text("label") + " predicted as " + fields.text("predicted") + ", " +
                percent(fields.number("probability")) + " %",
            name};
  std::vector<std::string> lines = {fields.text("caption") + ": rank " +
                                    shown_number(fields.number("rank"))};
  const auto nearest = example.find("nearest");
  if (nearest != example.end() && nearest->is_array()) {
    for (const auto& caption : *nearest)
      if (caption.is_string()) lines.push_back("nearest: " + caption.get<std::string>());
  }
  lines.push_back(name);
  return lines;
}

/// Returns the example images of a group, in the order of examples.json; each group gets its own
/// gallery.
std::vector<std::pair<std::string, Gallery>> examples_of(const RunDetails& details,
                                                         const std::string& node) {
  const std::filesystem::path folder = RunLayout(details.run.folder).node(node).examples();
  const FileSystem& files = real_file_system();
  std::vector<std::pair<std::string, Gallery>> groups;
  const auto list = files.read(folder / "examples.json", kLargestExampleList);
  const nlohmann::ordered_json json = list ? parse_json(*list) : nlohmann::ordered_json();
  if (!json.is_array()) return groups;
  std::size_t shown = 0;
  for (const auto& one : json) {
    try {
      const JsonFields fields(one, "an example");
      const std::string name = fields.text("name"), file = fields.text("file");
      if (std::filesystem::path(file).has_parent_path() || shown == kMostExamples) continue;
      const auto jpeg = files.read(folder / file, kLargestExample);
      if (!jpeg || !jpeg->starts_with("\xFF\xD8")) continue;
      if (groups.empty() || groups.back().first != fields.text("group"))
        groups.emplace_back(fields.text("group"), Gallery{});
      groups.back().second.photos.push_back({*jpeg, name, example_lines(one, name)});
      ++shown;
    } catch (const std::runtime_error&) {
      continue;  // a damaged entry
    }
  }
  return groups;
}

void add_examples(Document& document, const RunDetails& details, const std::string& node) {
  for (auto& [group, gallery] : examples_of(details, node)) {
    std::string heading = group.empty() ? "Examples" : group;
    heading.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(heading.front())));
    document.part(std::move(heading));
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
  document.say("Top-1 accuracy " + percent(evaluation.accuracy) + " % (95 % interval " +
               percent(evaluation.low) + "–" + percent(evaluation.high) + " %), " +
               std::to_string(evaluation.samples) + " samples of " +
               std::to_string(evaluation.classes.size()) + " classes" +
               (evaluation.is_smoke ? "; a smoke run: only some of the samples." : "."));
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
    if (measures.is_smoke) document.say("A smoke run: only some of the samples.");
    document.add(metrics_of(details, measures.node));
    const auto targets = read_target_predictions(details.run.folder, measures.node);
    if (targets && !targets->empty())
      document.add(Figure{draw_predictions(*targets, report.recipe)});
    if (const auto similarity = read_similarity(details.run.folder, measures.node))
      document.add(Figure{draw_similarity(*similarity, report.recipe)});
    add_examples(document, details, measures.node);
  }
}

}  // namespace runner
