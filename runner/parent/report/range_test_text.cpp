#include "runner/parent/report/range_test_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/report/table_text.h"
#include "runner/parent/svg/drawing.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Returns a number with two digits: "0.0032", "3.2e-05".
std::string two_digits(double number) {
  std::array<char, 32> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), "%.2g", number));
  return text.data();
}

std::vector<double> smoothed_losses(const Json& found) {
  std::vector<double> losses;
  for (const Json& point : found.at("points")) losses.push_back(point.at("smoothed_loss"));
  return losses;
}

/// Returns the largest loss to show: the largest one up to the minimum. A loss that diverges
/// afterward would hide the rest of the curve.
double shown_limit(const std::vector<double>& losses) {
  const auto low = std::ranges::min_element(losses);
  return *std::max_element(losses.begin(), low + 1);
}

std::string curve_text(const std::vector<double>& losses, const TextStyle& style) {
  const double low = std::ranges::min(losses), high = std::max(shown_limit(losses), low + 1e-12);
  constexpr double kSteps = 1000;
  std::vector<std::int64_t> heights;
  for (const double loss : losses) {
    const double share = std::clamp((loss - low) / (high - low), 0.0, 1.0);
    heights.push_back(1 + static_cast<std::int64_t>(kSteps * share));
  }
  return sparkline(heights, style);
}

std::string table_of(const Json& points, const TextStyle& style) {
  constexpr std::size_t kRows = 12;
  const std::size_t count = points.size(), rows = std::min(count, kRows);
  std::vector<std::vector<std::string>> table = {{"step", "learning rate", "loss", "smoothed"}};
  for (std::size_t row = 0; row < rows; ++row) {
    const Json& point = points[rows == 1 ? 0 : row * (count - 1) / (rows - 1)];
    table.push_back({point.at("step").dump(), two_digits(point.at("learning_rate")),
                     decimal(point.at("loss"), 4), decimal(point.at("smoothed_loss"), 4)});
  }
  return table_text(table, style.table_width());
}

}  // namespace

std::optional<std::string> suggested_override(const Json& found) {
  if (found.at("suggestion").is_null()) return {};
  return found.at("stage").get<std::string>().substr(1) +
         ".optimizer.learning_rate=" + two_digits(found.at("suggestion"));
}

std::string range_test_text(const Json& found, const TextStyle& style) {
  const Json& points = found.at("points");
  std::string text = curve_text(smoothed_losses(found), style) + "\n" + table_of(points, style);
  const std::string steps = points.back().at("step").dump();
  text += found.at("diverged").get<bool>()
              ? "the loss diverged after step " + steps + ", at the learning rate " +
                    two_digits(points.back().at("learning_rate")) + "\n"
              : "the loss did not diverge in " + steps + " steps\n";
  if (const auto suggested = suggested_override(found)) {
    return text + "the loss falls fastest at the learning rate " +
           two_digits(found.at("suggestion")) + "; the recipe has " +
           two_digits(found.at("learning_rate")) + "\n" + *suggested + "\n";
  }
  return text + "no suggestion: the loss never falls\n";
}

Drawing draw_range_test(const Json& found, const std::string& name) {
  std::vector<Point> losses, smoothed;
  for (const Json& point : found.at("points")) {
    const double rate = std::log10(point.at("learning_rate").get<double>());
    losses.push_back({rate, point.at("loss")});
    smoothed.push_back({rate, point.at("smoothed_loss")});
  }
  const std::vector<double> values = smoothed_losses(found);
  const double low = std::ranges::min(values), high = shown_limit(values);
  Ticks rates{.low = losses.front().x, .high = std::max(losses.back().x, losses.front().x + 1)};
  for (double power = std::ceil(rates.low); power <= rates.high; ++power) {
    rates.values.push_back(power);
    rates.labels.push_back("1e" + decimal(power, 0));
  }
  const auto suggested = suggested_override(found);
  Drawing drawing(
      560, 362, "Learning rate range test of " + name,
      std::to_string(losses.size()) + " steps; suggestion: " + suggested.value_or("none"));
  Plot plot(drawing, {70, 56, 460, 260}, {"learning rate", rates},
            {"loss", nice_ticks(low, high, 8)}, "Loss by learning rate");
  plot.line(losses, 2, Stroke::kThin);
  plot.line(smoothed, 1, Stroke::kPlain);
  std::vector<LegendEntry> lines = {{"smoothed", 1}, {"each step", 2, false, Stroke::kThin}};
  if (suggested) {
    const double at = std::log10(found.at("suggestion").get<double>());
    plot.dashed({at, -HUGE_VAL}, {at, HUGE_VAL});
    lines.push_back({"suggestion", 0, true});
  }
  draw_legend(drawing, {90, 68}, lines);
  drawing.footer(shortened(name, 80));
  return drawing;
}

}  // namespace runner
