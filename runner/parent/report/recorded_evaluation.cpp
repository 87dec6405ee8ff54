#include "runner/parent/report/recorded_evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/parent/svg/heat_map.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

constexpr std::size_t kLargestResults = 256 << 20;

using Damage = std::runtime_error;  // its message says what is wrong with a file

/// Returns the fields of an object in a file.
Fields fields_of(const Json& json) { return {json, "it"}; }
Fields fields_of(const Fields& fields, const std::string& key) {
  return {fields.at(key), "its '" + key + "'"};
}

double share(const Fields& fields, std::string_view key) {
  const double value = fields.number(key);
  if (!(value >= 0 && value <= 1 + 1e-9))
    throw Damage("'" + std::string(key) + "' is not between 0 and 1");
  return value;
}

std::int64_t whole(const Json& value, const std::string& what) {
  constexpr double kMost = 1e12;  // small enough that sums of counts are exact
  if (!value.is_number_integer() || value < 0 || value.get<double>() > kMost)
    throw Damage(what + " is not a count");
  return value;
}

std::vector<std::vector<std::int64_t>> matrix(const Json& json, std::size_t classes) {
  std::vector<std::vector<std::int64_t>> rows;
  if (json.is_null()) return rows;
  if (!json.is_array() || json.size() != classes)
    throw Damage("'confusion_matrix' does not have the shape classes x classes");
  for (const Json& row : json) {
    if (!row.is_array() || row.size() != classes)
      throw Damage("'confusion_matrix' does not have the shape classes x classes");
    rows.emplace_back();
    for (const Json& cell : row) rows.back().push_back(whole(cell, "a cell of 'confusion_matrix'"));
  }
  return rows;
}

RecordedEvaluation::Suspects suspects(const Fields& fields) {
  RecordedEvaluation::Suspects result{
      .count = whole(fields.at("count"), "the count of suspected labels"),
      .trained = whole(fields.at("trained"), "the count of trained samples"),
      .first = {}};
  for (const Json& item : fields.list("first")) {
    const Fields one = fields_of(item);
    result.first.push_back({one.text("name"), one.text("label"), one.text("suggested")});
  }
  return result;
}

void take_metrics(const Json& json, RecordedEvaluation& result) {
  const Fields fields = fields_of(json), interval = fields_of(fields, "top1_interval");
  result.accuracy = share(fields, "top1");
  result.low = share(interval, "low");
  result.high = share(interval, "high");
  result.mean_per_class = share(fields, "mean_per_class");
  result.loss = fields.number("log_loss");
  result.samples = whole(fields.at("samples"), "'samples'");
  result.is_smoke = fields.flag("smoke");
  if (json.contains("accuracies")) {
    for (const Json& one : fields.list("accuracies")) {
      if (!one.is_number() || !(one.get<double>() >= 0 && one.get<double>() <= 1))
        throw Damage("one of its 'accuracies' is not between 0 and 1");
      result.episodes.push_back(one.get<double>());
    }
    result.drawn = fields.text("drawn");
  }
  for (const Json& item : fields.list("per_class")) {
    const Fields one = fields_of(item);
    result.classes.push_back({one.text("class"), share(one, "precision"), share(one, "recall"),
                              whole(one.at("support"), "'support'")});
  }
  result.confusion = matrix(fields.at("confusion_matrix"), result.classes.size());
  if (json.contains("models")) {
    for (const Json& item : fields.list("models")) {
      const Fields one = fields_of(item);
      RecordedEvaluation::BaseModel& model = result.models.emplace_back();
      model.name = one.text("model");
      if (one.has("accuracy")) model.accuracy = share(one, "accuracy");
      if (!one.has("quadratic_kappa")) continue;
      model.kappa = one.number("quadratic_kappa");
      if (!(std::abs(*model.kappa) <= 1))
        throw Damage("'quadratic_kappa' of one of its 'models' is not a kappa");
    }
  }
  if (json.contains("suspected_labels"))
    result.suspects = suspects(fields_of(fields, "suspected_labels"));
  if (!json.contains("pairs")) return;
  const auto number_of = [&](const std::string& name) {
    const auto found = std::ranges::find(result.classes, name, &RecordedEvaluation::Class::name);
    if (found == result.classes.end()) throw Damage("one of its 'pairs' has an unknown class");
    return static_cast<std::size_t>(found - result.classes.begin());
  };
  for (const Json& item : fields.list("pairs")) {
    const Fields pair = fields_of(item);
    result.pairs.push_back({number_of(pair.text("first")), number_of(pair.text("second")),
                            whole(pair.at("samples"), "'samples' of a pair"), std::nullopt});
    if (!pair.at("accuracy").is_null()) result.pairs.back().accuracy = share(pair, "accuracy");
  }
}

RecordedCurve curve(const Fields& fields) {
  const Json &rates = fields.list("fpr"), &hits = fields.list("tpr");
  if (rates.size() != hits.size() || rates.size() < 2)
    throw Damage("'fpr' and 'tpr' do not form a curve");
  RecordedCurve result{fields.has("class") ? fields.text("class") : "", share(fields, "auc"), {}};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const Json point = {{"fpr", rates[i]}, {"tpr", hits[i]}};
    result.points.emplace_back(share(fields_of(point), "fpr"), share(fields_of(point), "tpr"));
  }
  return result;
}

void take_curves(const Json& json, RecordedEvaluation& result) {
  const Fields fields = fields_of(json), roc = fields_of(fields, "roc");
  if (!roc.at("macro").is_null()) result.macro = curve(fields_of(roc, "macro"));
  if (!roc.at("micro").is_null()) result.micro = curve(fields_of(roc, "micro"));
  for (const Json& one : roc.list("classes")) result.class_curves.push_back(curve(fields_of(one)));
  result.has_curves = true;
  if (fields.at("calibration").is_null()) return;  // no calibration was requested
  const Fields calibration = fields_of(fields, "calibration");
  result.calibration_error = share(calibration, "error");
  for (const Json& item : calibration.list("bins")) {
    const Fields bin = fields_of(item);
    result.bins.push_back({share(bin, "low"), share(bin, "high"), whole(bin.at("count"), "'count'"),
                           share(bin, "confidence"), share(bin, "accuracy")});
  }
}

template <typename Take>
std::optional<Diagnostic> read(const fs::path& path, const fs::path& run, const Take& take) {
  try {
    const auto bytes = real_file_system().read(path, kLargestResults);
    if (!bytes) throw Damage("it is too large or cannot be read");
    const Json json = parse_json<Json>(*bytes);
    take(json);
    return std::nullopt;
  } catch (const Damage& damage) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' is damaged: " + damage.what(),
                      "evaluate the run again with `retort evaluate " + run.string() + "`"};
  }
}

}  // namespace

Result<RecordedEvaluation> read_evaluation(const fs::path& folder, const std::string& node) {
  RecordedEvaluation result;
  result.node = node;
  const NodeLayout own = RunLayout(folder).node(node);
  const auto take = [&](const Json& json) { take_metrics(json, result); };
  if (auto damage = read(own.metrics(), folder, take)) return *std::move(damage);
  if (!real_file_system().is_file(own.curves())) return result;
  const auto add = [&](const Json& json) { take_curves(json, result); };
  if (auto damage = read(own.curves(), folder, add)) return *std::move(damage);
  return result;
}

std::optional<RecordedMeasures> read_measures(const fs::path& folder, const std::string& node) {
  const auto bytes =
      real_file_system().read(RunLayout(folder).node(node).metrics(), kLargestResults);
  const Json json = bytes ? parse_json(*bytes) : Json();
  if (!json.is_object() || !json.contains("smoke") || !json["smoke"].is_boolean())
    return std::nullopt;
  for (const char* of_classes :
       {"top1", "top1_interval", "mean_per_class", "per_class", "confusion_matrix"})
    if (json.contains(of_classes)) return std::nullopt;
  return RecordedMeasures{.node = node, .title = node, .is_smoke = json["smoke"]};
}

bool has_label_sets(const RecordedMeasures& measures) {
  return std::ranges::count(measures.values, std::string("evaluate/subset_accuracy"),
                            &std::pair<std::string, double>::first) > 0;
}

std::vector<std::string> evaluated_nodes(const fs::path& folder) {
  const FileSystem& files = real_file_system();
  const RunLayout layout(folder);
  std::vector<std::string> nodes = files.list(layout.nodes());
  std::erase_if(
      nodes, [&](const std::string& node) { return !files.is_file(layout.node(node).metrics()); });
  return nodes;
}

namespace {

constexpr std::size_t kMostNames = 20;   // maximum size of a matrix drawn with class names
constexpr std::size_t kMostCounts = 12;  // maximum size of a matrix drawn with counts

std::string times(std::int64_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

}  // namespace

Drawing draw_confusion(const RecordedEvaluation& evaluation, const std::string& name) {
  const std::size_t classes = evaluation.classes.size();
  const bool is_named = classes <= kMostNames;
  const double cell = classes <= kMostNames
                          ? std::clamp(520.0 / static_cast<double>(classes), 26.0, 60.0)
                          : std::max(1.0, 620.0 / static_cast<double>(classes));
  const double side = cell * static_cast<double>(classes);
  std::vector<std::string> names;
  for (const RecordedEvaluation::Class& one : evaluation.classes) names.push_back(one.name);
  const double left = is_named ? HeatMap::room_left(names) + 34 : 60, top = 50,
               below = is_named ? HeatMap::room_below(names) + 26 : 46;
  Drawing drawing(left + side + 16 + HeatScale::kWidth, top + side + below,
                  "Confusion matrix of " + name,
                  std::to_string(evaluation.samples) + " samples of " + std::to_string(classes) +
                      " classes, " + percent(evaluation.accuracy) +
                      "% correct; rows are true classes, columns are predicted classes");
  drawing.text({drawing.width() / 2, 28}, "Confusion matrix", Align::kMiddle, "title");
  const HeatMap map(drawing, {left, top}, cell, classes);
  for (std::size_t row = 0; row < classes; ++row) {
    const auto& counts = evaluation.confusion[row];
    std::int64_t support = 0;
    for (const std::int64_t count : counts) support += count;
    for (std::size_t column = 0; column < classes; ++column) {
      if (counts[column] == 0) continue;
      map.cell(row, column, static_cast<double>(counts[column]) / static_cast<double>(support),
               evaluation.classes[row].name + " predicted as " + evaluation.classes[column].name +
                   ": " + times(counts[column]),
               classes > kMostCounts ? "" : std::to_string(counts[column]));
    }
    if (is_named) map.name(row, evaluation.classes[row].name);
  }
  const std::array<Point, 5> border = {{{left, top},
                                        {left + side, top},
                                        {left + side, top + side},
                                        {left, top + side},
                                        {left, top}}};
  drawing.line(border, "axis");
  drawing.text({left + side / 2, top + side + below - 10}, "predicted", Align::kMiddle, "text");
  drawing.text({is_named ? 18.0 : left - 14, top + side / 2}, "true", Align::kMiddle, "text", -90);
  draw_heat_scale(drawing, {left + side + 16, top}, std::min(side, 240.0),
                  {"0%", "100%", "fraction of the true class"});
  return drawing;
}

Drawing draw_roc(const RecordedEvaluation& evaluation, const std::string& name) {
  std::string description = "One class versus the others";
  if (evaluation.macro)
    description +=
        "; area under the mean curve of the classes " + decimal(evaluation.macro->area, 3);
  if (evaluation.micro)
    description += "; of all sample-class pairs " + decimal(evaluation.micro->area, 3);
  const auto rows = static_cast<double>(evaluation.class_curves.size() + 3);
  Drawing drawing(760, std::max(480.0, 110 + 17 * rows), "ROC curves of " + name, description);
  const Ticks shares = nice_ticks(0, 1, 8);
  Plot plot(drawing, {70, 56, 360, 360}, {"false positives", shares}, {"true positives", shares},
            "ROC, one class versus the others");
  plot.dashed({0, 0}, {1, 1});
  std::vector<LegendEntry> lines;
  const auto draw = [&](const RecordedCurve& curve, const std::string& what, int color,
                        Stroke stroke) {
    std::vector<Point> points;
    for (const auto& [rate, hits] : curve.points) points.push_back({rate, hits});
    plot.line(points, color, stroke);
    lines.push_back({what + ", " + decimal(curve.area, 3), color, false, stroke});
  };
  // Colors 1 and 2 are those of the means; the other colors are reused with a different line
  // pattern.
  constexpr std::array kPatterns = {Stroke::kThin, Stroke::kDash, Stroke::kDot, Stroke::kDashDot};
  constexpr std::size_t kColors = 6;
  for (std::size_t i = 0; i < evaluation.class_curves.size(); ++i) {
    const RecordedCurve& curve = evaluation.class_curves[i];
    draw(curve, shortened(curve.name, 30), static_cast<int>(i % kColors) + 3,
         kPatterns[i / kColors % kPatterns.size()]);
  }
  if (evaluation.macro) draw(*evaluation.macro, "mean of the classes", 1, Stroke::kPlain);
  if (evaluation.micro) draw(*evaluation.micro, "all sample-class pairs", 2, Stroke::kPlain);
  lines.push_back({"guessing, 0.500", 1, true});
  drawing.text({460, 56}, "area under the curve", Align::kStart, "small");
  draw_legend(drawing, {460, 74}, lines);
  return drawing;
}

Drawing draw_calibration(const RecordedEvaluation& evaluation, const std::string& name) {
  std::int64_t most = 0;
  for (const RecordedBin& bin : evaluation.bins) most = std::max(most, bin.count);
  Drawing drawing(
      500, 580, "Calibration of " + name,
      "How often predictions are correct, by their probability; expected calibration error " +
          percent(*evaluation.calibration_error) + "%");
  const Ticks shares = nice_ticks(0, 1, 8);
  Plot rights(drawing, {80, 56, 380, 300}, {"", shares}, {"fraction correct", shares},
              "Calibration error " + percent(*evaluation.calibration_error) + "%");
  for (const RecordedBin& bin : evaluation.bins) {
    if (bin.count == 0) continue;
    rights.bar(bin.low + 0.004, bin.high - 0.004, bin.accuracy, 1,
               std::to_string(bin.count) + " predictions, mean probability " +
                   percent(bin.confidence) + "%, correct " + percent(bin.accuracy) + "%");
  }
  rights.dashed({0, 0}, {1, 1});
  Plot counts(
      drawing, {80, 430, 380, 100}, {"probability of the predicted class", shares},
      {"predictions", whole_ticks(0, static_cast<double>(std::max<std::int64_t>(most, 1)), 5)}, "");
  for (const RecordedBin& bin : evaluation.bins) {
    if (bin.count > 0)
      counts.bar(bin.low + 0.004, bin.high - 0.004, static_cast<double>(bin.count), 7, "");
  }
  drawing.footer(shortened(name, 70));
  return drawing;
}

}  // namespace runner
