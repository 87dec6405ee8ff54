#include "runner/parent/report/label_curves.h"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/parent/svg/plot.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

constexpr std::size_t kLargestCurves = 16 << 20;  // bytes
constexpr const char* kPrecisionRecall = "precision_recall";

double fraction_of(const Json& json, const std::string& key) {
  if (!json.is_number() || !(json.get<double>() >= 0 && json.get<double>() <= 1 + 1e-9))
    throw std::runtime_error("'" + key + "' is not between 0 and 1");
  return json;
}

std::vector<Point> points_of(const Fields& fields, const std::string& x, const std::string& y) {
  const Json &across = fields.list(x), &up = fields.list(y);
  if (across.size() != up.size() || across.size() < 2)
    throw std::runtime_error("'" + x + "' and '" + y + "' do not form a curve");
  std::vector<Point> points;
  for (std::size_t i = 0; i < across.size(); ++i)
    points.push_back({fraction_of(across[i], x), fraction_of(up[i], y)});
  return points;
}

/// Returns the curves in the "classes" of a member of `json`.
const Json& curve_list(const Json& json, const std::string& key) {
  return Fields(Fields(json, "it").object(key), "its '" + key + "'").list("classes");
}

LabelCurves label_curves_of(const Json& json) {
  LabelCurves result;
  if (!json.is_object()) throw std::runtime_error("it is not a JSON object");
  if (!json.contains(kPrecisionRecall)) return result;
  result.labels = Fields(json, "it").count("labels");
  for (const Json& item : curve_list(json, kPrecisionRecall)) {
    const Fields one(item, "a curve");
    result.curves.push_back(
        {.label = one.text("class"),
         .support = one.count("support"),
         .average_precision = fraction_of(one.at("average_precision"), "average_precision"),
         .precision_recall = points_of(one, "recall", "precision"),
         .area = {},
         .roc = {}});
  }
  for (const Json& item : curve_list(json, "roc")) {
    const Fields one(item, "a curve");
    const auto found = std::ranges::find(result.curves, one.text("class"), &LabelCurve::label);
    if (found == result.curves.end())
      throw std::runtime_error("'" + one.text("class") + "' has no precision-recall curve");
    found->area = fraction_of(one.at("auc"), "auc");
    found->roc = points_of(one, "fpr", "tpr");
  }
  return result;
}

/// Returns the points of the step curve with an area equal to the average precision. Between two
/// recall values, the precision is that of the higher recall.
std::vector<Point> step_corners(const std::vector<Point>& points) {
  std::vector<Point> steps;
  for (const Point& point : points) {
    if (!steps.empty()) steps.push_back({steps.back().x, point.y});
    steps.push_back(point);
  }
  return steps;
}

}  // namespace

Result<LabelCurves> read_label_curves(const std::filesystem::path& folder,
                                      const std::string& node) {
  const std::filesystem::path path = RunLayout(folder).node(node).curves();
  if (!real_file_system().is_file(path)) return LabelCurves{};
  try {
    const auto text = real_file_system().read(path, kLargestCurves);
    if (!text) throw std::runtime_error("it is too large or cannot be read");
    return label_curves_of(parse_json<Json>(*text));
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' is damaged: " + error.what(),
                      "evaluate the run again with `retort evaluate " + folder.string() + "`"};
  }
}

Drawing draw_label_curves(const LabelCurves& curves, const std::string& name) {
  const std::size_t count = std::min(curves.curves.size(), kMostDrawnLabels);
  const std::string all = counted(static_cast<std::size_t>(curves.labels), "label");
  const std::string which = static_cast<std::int64_t>(count) == curves.labels
                                ? all
                                : "The " + std::to_string(count) + " most frequent of " + all;
  Drawing drawing(840, 480 + 17 * static_cast<double>(count),
                  "Precision, recall and ROC of " + name, which);
  const Ticks shares = nice_ticks(0, 1, 8);
  Plot precision(drawing, {70, 56, 330, 330}, {"recall", shares}, {"precision", shares},
                 "Precision by recall");
  Plot roc(drawing, {490, 56, 330, 330}, {"false positives", shares}, {"true positives", shares},
           "ROC, samples with the label versus the others");
  roc.dashed({0, 0}, {1, 1});
  std::vector<LegendEntry> lines;
  for (std::size_t i = 0; i < count; ++i) {
    const LabelCurve& one = curves.curves[i];
    const int color = static_cast<int>(i) + 1;
    precision.line(step_corners(one.precision_recall), color, Stroke::kPlain);
    if (one.area) roc.line(one.roc, color, Stroke::kPlain);
    lines.push_back({shortened(one.label, 40) + ": average precision " +
                         decimal(one.average_precision, 3) + ", area under ROC " +
                         (one.area ? decimal(*one.area, 3) : "not defined") + ", " +
                         counted(static_cast<std::size_t>(one.support), "sample"),
                     color});
  }
  drawing.text({70, 446}, which, Align::kStart, "small");
  draw_legend(drawing, {70, 464}, lines);
  return drawing;
}

}  // namespace runner
