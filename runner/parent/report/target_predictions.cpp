#include "runner/parent/report/target_predictions.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "runner/parent/svg/plot.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/csv.h"

namespace runner {
namespace {

constexpr std::size_t kLargestTargetTable = std::size_t{1} << 30;
constexpr std::string_view kTrueColumn = "target", kPredictedColumn = "prediction";

/// A target, and the indices of its columns.
struct TargetColumns {
  std::string target;
  std::size_t truth = 0, predicted = 0;
};

std::vector<TargetColumns> target_columns(const std::vector<std::string>& head) {
  std::vector<TargetColumns> columns;
  for (std::size_t place = 0; place < head.size(); ++place) {
    const std::string_view title = head[place];
    if (!title.starts_with(kTrueColumn)) continue;
    const std::string_view suffix = title.substr(kTrueColumn.size());
    const auto found = std::ranges::find(head, std::string(kPredictedColumn) + std::string(suffix));
    if (found == head.end() || (!suffix.empty() && suffix.front() != '_')) continue;
    columns.push_back({.target = std::string(suffix.substr(suffix.empty() ? 0 : 1)),
                       .truth = place,
                       .predicted = static_cast<std::size_t>(found - head.begin())});
  }
  return columns;
}

double target_number(const std::string& field) {
  double number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(number))
    throw std::runtime_error("one of its values is not a number");
  return number;
}

std::vector<TargetPredictions> target_predictions_from(std::string_view text) {
  std::vector<TargetPredictions> all;
  auto row = take_csv_line(text);
  if (!row) return all;
  const std::vector<std::string> head = *std::move(row);
  const std::vector<TargetColumns> columns = target_columns(head);
  for (const TargetColumns& one : columns) all.push_back({one.target, {}});
  while (!columns.empty() && (row = take_csv_line(text))) {
    if (row->size() != head.size()) throw std::runtime_error("its rows have different lengths");
    for (std::size_t i = 0; i < columns.size(); ++i)
      all[i].pairs.push_back(
          {target_number((*row)[columns[i].truth]), target_number((*row)[columns[i].predicted])});
  }
  std::erase_if(all, [](const TargetPredictions& one) { return one.pairs.empty(); });
  return all;
}

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
              title + "predicted by true numbers");
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
  const std::filesystem::path path = RunLayout(folder).node(node).folder() / "predictions.csv";
  const auto text = real_file_system().read(path, kLargestTargetTable);
  if (!text) return std::vector<TargetPredictions>();
  try {
    return target_predictions_from(*text);
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' cannot be used: " + error.what(),
                      "evaluate the run again with `retort evaluate " + folder.string() + "`"};
  }
}

Drawing draw_predictions(const std::vector<TargetPredictions>& targets, const std::string& name) {
  constexpr double kHeight = 430;
  const std::size_t count = std::min(targets.size(), kMostDrawnTargets);
  Drawing drawing(840, kHeight * static_cast<double>(count) + 20, "Predictions of " + name,
                  std::to_string(targets.front().pairs.size()) +
                      " samples: predicted by true numbers, and residuals by predictions");
  for (std::size_t i = 0; i < count; ++i)
    draw_target(drawing, targets[i], kHeight * static_cast<double>(i));
  return drawing;
}

}  // namespace runner
