#include "runner/parent/report/evaluation_pictures.h"

#include <algorithm>
#include <array>

#include "runner/shared/text/decimal.h"
#include "runner/parent/svg/plot.h"

namespace runner {
namespace {

constexpr std::size_t kMostNames = 20;   // classes of a matrix that are named
constexpr std::size_t kMostCounts = 12;  // … whose counts are written
constexpr std::size_t kNameLength = 24;

/// The legend of a matrix's colours, from `corner` down.
void draw_scale(Drawing& drawing, Point corner, double height) {
  constexpr int kParts = 20;
  for (int i = 0; i < kParts; ++i) {
    const double top = corner.y + height * i / kParts;
    drawing.rectangle({corner.x, top}, 14, height / kParts, "heat", 1 - (i + 0.5) / kParts);
  }
  drawing.text({corner.x + 20, corner.y + 8}, "100 %", Align::kStart, "small");
  drawing.text({corner.x + 20, corner.y + height}, "0 %", Align::kStart, "small");
  drawing.text({corner.x + 58, corner.y + height / 2}, "share of the true class", Align::kMiddle, "small", -90);
}

std::string times(std::int64_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

}  // namespace

std::string draw_confusion(const RecordedEvaluation& evaluation, const std::string& name) {
  const std::size_t classes = evaluation.classes.size();
  const bool is_named = classes <= kMostNames;
  const double cell = classes <= kMostNames ? std::clamp(520.0 / static_cast<double>(classes), 26.0, 60.0)
                                            : std::max(1.0, 620.0 / static_cast<double>(classes));
  const double side = cell * static_cast<double>(classes);
  const double left = is_named ? 190 : 60, top = 50, below = is_named ? 160 : 46;
  Drawing drawing(left + side + 90, top + side + below, "Confusion matrix of " + name,
                  std::to_string(evaluation.samples) + " samples of " + std::to_string(classes) + " classes, " +
                      percent(evaluation.accuracy) + " % of them right; rows are true classes, columns predicted ones");
  drawing.text({left + side / 2, 28}, "Confusion matrix", Align::kMiddle, "title");
  for (std::size_t row = 0; row < classes; ++row) {
    const auto& counts = evaluation.confusion[row];
    std::int64_t support = 0;
    for (const std::int64_t count : counts) support += count;
    for (std::size_t column = 0; column < classes; ++column) {
      if (counts[column] == 0) continue;
      const Point corner{left + cell * static_cast<double>(column), top + cell * static_cast<double>(row)};
      const double share = static_cast<double>(counts[column]) / static_cast<double>(support);
      drawing.rectangle(corner, cell, cell, "heat", std::max(0.06, share),
                        evaluation.classes[row].name + " taken for " + evaluation.classes[column].name + ": " +
                            times(counts[column]));
      if (classes > kMostCounts) continue;
      drawing.text({corner.x + cell / 2, corner.y + cell / 2 + 4}, std::to_string(counts[column]), Align::kMiddle,
                   share > 0.55 ? "small inverse" : "small");
    }
    if (!is_named) continue;
    const std::string label = shortened(evaluation.classes[row].name, kNameLength);
    const double middle = cell * (static_cast<double>(row) + 0.5);
    drawing.text({left - 8, top + middle + 4}, label, Align::kEnd, "small");
    drawing.text({left + middle + 3, top + side + 14}, label, Align::kEnd, "small", -45);
  }
  const std::array<Point, 5> border = {
      {{left, top}, {left + side, top}, {left + side, top + side}, {left, top + side}, {left, top}}};
  drawing.line(border, "axis");
  drawing.text({left + side / 2, top + side + below - 10}, "predicted", Align::kMiddle, "text");
  drawing.text({is_named ? 18.0 : left - 14, top + side / 2}, "true", Align::kMiddle, "text", -90);
  draw_scale(drawing, {left + side + 16, top}, std::min(side, 240.0));
  return drawing.svg();
}

std::string draw_roc(const RecordedEvaluation& evaluation, const std::string& name) {
  std::string description = "One class against the others";
  if (evaluation.macro)
    description += "; area under the mean curve of the classes " + decimal(evaluation.macro->area, 3);
  if (evaluation.micro) description += "; of all pairs of sample and class " + decimal(evaluation.micro->area, 3);
  const auto rows = static_cast<double>(evaluation.class_curves.size() + 3);
  Drawing drawing(760, std::max(480.0, 110 + 17 * rows), "ROC curves of " + name, description);
  const Ticks shares = nice_ticks(0, 1, 8);
  Plot plot(drawing, {70, 56, 360, 360}, {"false positives", shares}, {"true positives", shares},
            "ROC, one class against the others");
  plot.dashed({0, 0}, {1, 1});
  std::vector<LegendEntry> lines;
  const auto draw = [&](const RecordedCurve& curve, const std::string& what, int color, Stroke stroke) {
    std::vector<Point> points;
    for (const auto& [rate, hits] : curve.points) points.push_back({rate, hits});
    plot.line(points, color, stroke);
    lines.push_back({what + ", " + decimal(curve.area, 3), color});
  };
  int color = 3;
  for (const RecordedCurve& curve : evaluation.class_curves) {
    draw(curve, shortened(curve.name, 30), color++, Stroke::kThin);
  }
  if (evaluation.macro) draw(*evaluation.macro, "mean of the classes", 1, Stroke::kPlain);
  if (evaluation.micro) draw(*evaluation.micro, "all pairs of sample and class", 2, Stroke::kPlain);
  lines.push_back({"guessing, 0.500", 1, true});
  drawing.text({460, 56}, "area under the curve", Align::kStart, "small");
  draw_legend(drawing, {460, 74}, lines);
  return drawing.svg();
}

std::string draw_calibration(const RecordedEvaluation& evaluation, const std::string& name) {
  std::int64_t most = 0;
  for (const RecordedBin& bin : evaluation.bins) most = std::max(most, bin.count);
  Drawing drawing(500, 600, "Calibration of " + name,
                  "How often predictions are right by the probability they were given; expected calibration error " +
                      percent(*evaluation.calibration_error) + " %");
  const Ticks shares = nice_ticks(0, 1, 8);
  Plot rights(drawing, {80, 56, 380, 300}, {"", shares}, {"share that is right", shares},
              "Calibration error " + percent(*evaluation.calibration_error) + " %");
  for (const RecordedBin& bin : evaluation.bins) {
    if (bin.count == 0) continue;
    rights.bar(bin.low + 0.004, bin.high - 0.004, bin.accuracy, 1,
               std::to_string(bin.count) + " predictions, mean probability " + percent(bin.confidence) + " %, right " +
                   percent(bin.accuracy) + " %");
  }
  rights.dashed({0, 0}, {1, 1});
  Plot counts(drawing, {80, 430, 380, 100}, {"probability of the predicted class", shares},
              {"predictions", whole_ticks(0, static_cast<double>(std::max<std::int64_t>(most, 1)), 5)}, "");
  for (const RecordedBin& bin : evaluation.bins) {
    if (bin.count > 0) counts.bar(bin.low + 0.004, bin.high - 0.004, static_cast<double>(bin.count), 7, "");
  }
  drawing.text({10, 590}, shortened(name, 70), Align::kStart, "small");
  return drawing.svg();
}

}  // namespace runner
