#include "runner/parent/report/training_picture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/shared/text/decimal.h"
#include "runner/parent/svg/plot.h"

namespace runner {
namespace {

using Epoch = TrainingHistory::Epoch;

constexpr double kLargestRatio = 1e100;  // beyond it, and infinite or no number, it is not drawn

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

std::string draw_training(const TrainingHistory& history, const std::string& name) {
  const auto train = points(history, [](const Epoch& epoch) { return std::optional(epoch.train_loss); });
  const auto validation = points(history, [](const Epoch& epoch) { return epoch.validation_loss; });
  const auto accuracy = points(history, [](const Epoch& epoch) {
    return epoch.validation_accuracy ? std::optional(100 * *epoch.validation_accuracy) : std::nullopt;
  });
  std::string description = std::to_string(history.epochs().size()) + " epochs; loss of training from " +
                            ends(train, 3) + ", of validation " + ends(validation, 3);
  if (!accuracy.empty()) description += ", accuracy of validation " + ends(accuracy, 1, " %");
  Drawing drawing(accuracy.empty() ? 480 : 940, 380, "Training of " + name, description);

  const auto last = static_cast<double>(history.epochs().size());
  const Axis epochs{"epoch", last == 1 ? whole_ticks(0, 2, 4) : whole_ticks(1, last, 10)};
  Plot losses(drawing, {70, 56, 380, 260}, epochs, {"loss", range(train, validation)}, "Loss");
  losses.line(train, 1);
  losses.line(validation, 2);
  std::vector<LegendEntry> lines = {{"training", 1}};
  if (!validation.empty()) lines.push_back({"validation", 2});
  draw_legend(drawing, {360, 68}, lines);
  if (!accuracy.empty()) {
    Plot(drawing, {530, 56, 380, 260}, epochs, {"accuracy, %", nice_ticks(0, 100, 12)}, "Accuracy of validation")
        .line(accuracy, 2);
  }
  drawing.text({10, 370}, shortened(name, 100), Align::kStart, "small");
  return drawing.svg();
}

}  // namespace runner
