#include "runner/parent/report/training_picture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "runner/parent/svg/drawing.h"
#include "runner/parent/svg/heat_map.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Epoch = TrainingHistory::Epoch;

constexpr double kLargestRatio = 1e100;  // larger values, infinity and NaN are not drawn

template <typename ValueOf>
std::vector<Point> points(const TrainingHistory& history, const ValueOf& value_of) {
  std::vector<Point> result;
  double number = 0;
  for (const Epoch& epoch : history.epochs()) {
    const std::optional<double> value = value_of(epoch);
    ++number;
    if (value && std::abs(*value) < kLargestRatio) result.push_back({number, *value});
  }
  return result;
}

std::string ends(const std::vector<Point>& line, int places, const std::string& unit = "") {
  if (line.empty()) return "none";
  return decimal(line.front().y, places) + unit + " to " + decimal(line.back().y, places) + unit;
}

Ticks range(const std::vector<Point>& first, const std::vector<Point>& second) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto* line : {&first, &second}) {
    for (const Point& point : *line) {
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  return low > high ? nice_ticks(0, 1, 6) : nice_ticks(low, high, 8);
}

}  // namespace

Drawing draw_training(const TrainingHistory& history, const std::string& name) {
  const auto train =
      points(history, [](const Epoch& epoch) { return std::optional(epoch.train_loss); });
  const auto validation = points(history, [](const Epoch& epoch) { return epoch.validation_loss; });
  const auto accuracy = points(history, [](const Epoch& epoch) {
    return epoch.validation_accuracy ? std::optional(100 * *epoch.validation_accuracy)
                                     : std::nullopt;
  });
  std::string description = std::to_string(history.epochs().size()) +
                            " epochs; training loss from " + ends(train, 3) + ", validation loss " +
                            ends(validation, 3);
  if (!accuracy.empty()) description += ", validation accuracy " + ends(accuracy, 1, "%");
  Drawing drawing(accuracy.empty() ? 480 : 940, 362, "Training of " + name, description);

  const auto last = static_cast<double>(history.epochs().size());
  const Axis epochs{"epoch", last == 1 ? whole_ticks(0, 2, 4) : whole_ticks(1, last, 10)};
  Plot losses(drawing, {70, 56, 380, 260}, epochs, {"loss", range(train, validation)}, "Loss");
  losses.line(train, 1);
  losses.line(validation, 2);
  std::vector<LegendEntry> lines = {{"training", 1}};
  if (!validation.empty()) lines.push_back({"validation", 2});
  draw_legend(drawing, {360, 68}, lines);
  if (!accuracy.empty()) {
    Plot(drawing, {530, 56, 380, 260}, epochs, {"accuracy, %", nice_ticks(0, 100, 12)},
         "Validation accuracy")
        .line(accuracy, 2);
  }
  drawing.footer(shortened(name, 100));
  return drawing;
}

namespace {

constexpr double kTitleWidth = 380;

struct MeanAccuracy {
  double sum = 0;
  std::int64_t networks = 0, samples = 0;
  double value() const { return sum / static_cast<double>(networks); }
};

}  // namespace

Drawing draw_pairs(const RecordedEvaluation& evaluation, const std::string& name) {
  std::map<std::pair<std::size_t, std::size_t>, MeanAccuracy> cells;
  for (const auto& [first, second, samples, accuracy] : evaluation.pairs) {
    if (!accuracy || first == second) continue;
    MeanAccuracy& mean = cells[std::minmax(first, second)];
    mean.sum += *accuracy;
    ++mean.networks;
    mean.samples = samples;
  }
  // Each pair appears in only one order, so the last class has no row, and the first class has no
  // column.
  std::vector<std::string> rows, columns;
  for (const RecordedEvaluation::Class& one : evaluation.classes) {
    rows.push_back(one.name);
    columns.push_back(one.name);
  }
  rows.pop_back();
  columns.erase(columns.begin());
  const double cell = std::clamp(520.0 / static_cast<double>(rows.size()), 16.0, 72.0);
  const double side = cell * static_cast<double>(rows.size()), top = 50;
  const std::string title = "Accuracy of the network of each class pair";
  const double left =
      std::max({HeatMap::room_left(rows), HeatMap::room_below(columns) - cell / 2, 10.0}) + 10;
  const double width = std::max(left + side + 16 + HeatScale::kWidth, kTitleWidth);
  Drawing drawing(
      width, top + std::max(side, 120.0) + HeatMap::room_below(columns) + 10,
      "Class-pair matrix of " + name,
      "How often the network of each class pair is correct on the test samples of its two classes");
  drawing.text({width / 2, 28}, title, Align::kMiddle, "title");
  const HeatMap map(drawing, {left, top}, cell, rows.size());
  for (const auto& [pair, mean] : cells) {
    const auto& [first, second] = pair;
    // A pair at chance level is almost invisible; one that is always correct is fully colored.
    map.cell(first, second - 1, 2 * mean.value() - 1,
             evaluation.classes[first].name + " or " + evaluation.classes[second].name +
                 ": correct " + percent(mean.value()) + "% of " + std::to_string(mean.samples),
             cell < 40 ? "" : percent(mean.value()));
  }
  for (std::size_t place = 0; place < rows.size(); ++place) {
    map.row_name(place, rows[place]);
    map.column_name(place, columns[place]);
  }
  draw_heat_scale(drawing, {left + side + 16, top}, std::clamp(side, 100.0, 240.0),
                  {"50%", "100%", "correct, %"});
  return drawing;
}

namespace {

/// Throws WriteError, with --out instead of run.dir in the advice.
[[noreturn]] void cannot_draw(Diagnostic error) {
  constexpr std::string_view kOfRuns = "run.dir";
  const std::size_t at = error.help.find(kOfRuns);
  if (at != error.help.npos) error.help.replace(at, kOfRuns.size(), "--out");
  throw WriteError(error);
}

}  // namespace

DrawingFolder::DrawingFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) cannot_draw(write_diagnostic(folder_, error.value(), ErrorCode::kCannotCreate));
}

void DrawingFolder::write(const std::string& name, std::string_view svg) {
  try {
    write_atomically(folder_ / name, svg);
  } catch (const WriteError& error) {
    cannot_draw(error.diagnostic());
  }
  written_.push_back((folder_ / name).string());
}

}  // namespace runner
