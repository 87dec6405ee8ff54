#include "runner/parent/report/target_predictions.h"

#include <algorithm>
#include <utility>

#include "runner/parent/report/prediction_table.h"
#include "runner/parent/svg/plot.h"

namespace runner {
namespace {

/// Returns at most kMostDrawnPairs of the pairs.
std::vector<Point> drawn_pairs(const std::vector<Point>& pairs) {
  const std::size_t every = (pairs.size() + kMostDrawnPairs - 1) / kMostDrawnPairs;
  std::vector<Point> drawn;
  for (std::size_t i = 0; i < pairs.size(); i += every) drawn.push_back(pairs[i]);
  return drawn;
}

Ticks ticks_of(const std::vector<double>& numbers) {
  const auto [low, high] = std::ranges::minmax(numbers);
  return nice_ticks(low, high, 6);
}

/// Draws the plots of one target below `top`.
void draw_target(Drawing& drawing, const TargetPredictions& one, double top) {
  const std::vector<Point> pairs = drawn_pairs(one.pairs);
  std::vector<double> numbers, predictions, residuals = {0};
  for (const auto& [truth, predicted] : pairs) {
    numbers.insert(numbers.end(), {truth, predicted});
    predictions.push_back(predicted);
    residuals.push_back(truth - predicted);
  }
  const Ticks shared = ticks_of(numbers), horizontal = ticks_of(predictions);
  const std::string title = one.target.empty() ? "" : shortened(one.target, 30) + ": ";
  Plot values(drawing, {70, top + 40, 330, 330}, {"true", shared}, {"predicted", shared},
              title + "predicted against true values");
  values.dashed({shared.low, shared.low}, {shared.high, shared.high});
  for (const auto& [truth, predicted] : pairs)
    drawing.circle(values.at(truth, predicted), 2.5, "fill-1");
  Plot rest(drawing, {490, top + 40, 330, 330}, {"predicted", horizontal},
            {"true - predicted", ticks_of(residuals)}, title + "residuals");
  rest.dashed({horizontal.low, 0}, {horizontal.high, 0});
  for (const auto& [truth, predicted] : pairs)
    drawing.circle(rest.at(predicted, truth - predicted), 2.5, "fill-1");
}

}  // namespace

Result<std::vector<TargetPredictions>> read_target_predictions(const std::filesystem::path& folder,
                                                               const std::string& node) {
  std::vector<TargetPredictions> all;
  const auto table = read_prediction_table(folder, node);
  if (!table && table.errors().front().code == ErrorCode::kNoResults) return all;
  if (!table) return table.errors();
  for (const PredictionTable::Target& target : table->targets) {
    TargetPredictions one{target.name, {}};
    for (const std::vector<std::string>& row : table->rows)
      one.pairs.push_back(
          {number_of_field(row[target.truth]), number_of_field(row[target.predicted])});
    if (!one.pairs.empty()) all.push_back(std::move(one));
  }
  return all;
}

Drawing draw_predictions(const std::vector<TargetPredictions>& targets, const std::string& name) {
  constexpr double kHeight = 430;
  const std::size_t count = std::min(targets.size(), kMostDrawnTargets);
  Drawing drawing(840, kHeight * static_cast<double>(count) + 20, "Predictions of " + name,
                  std::to_string(targets.front().pairs.size()) +
                      " samples: predicted against true values, and residuals against predictions");
  for (std::size_t i = 0; i < count; ++i)
    draw_target(drawing, targets[i], kHeight * static_cast<double>(i));
  return drawing;
}

}  // namespace runner
