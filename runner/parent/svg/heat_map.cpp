#include "runner/parent/svg/heat_map.h"

#include <algorithm>
#include <cmath>

#include "runner/parent/svg/plot.h"

namespace runner {
namespace {

constexpr std::size_t kNameLength = 24;
constexpr double kNameGap = 8, kNameDrop = 14;  // distance between the cells and the names

double widest_name(std::span<const std::string> names) {
  double widest = 0;
  for (const std::string& name : names)
    widest = std::max(widest, Drawing::small_width(shortened(name, kNameLength)));
  return widest;
}

}  // namespace

void HeatMap::cell(std::size_t row, std::size_t column, double strength, std::string_view tip,
                   std::string_view text) const {
  constexpr double kWeakest = 0.06, kDark = 0.55;
  const Point at{corner_.x + cell_ * static_cast<double>(column),
                 corner_.y + cell_ * static_cast<double>(row)};
  const double shown = std::clamp(strength, kWeakest, 1.0);
  drawing_.rectangle(at, cell_, cell_, "heat", shown, tip);
  if (text.empty()) return;
  drawing_.text({at.x + cell_ / 2, at.y + cell_ / 2 + 4}, text, Align::kMiddle,
                shown > kDark ? "small inverse" : "small");
}

void HeatMap::name(std::size_t place, std::string_view name) const {
  row_name(place, name);
  column_name(place, name);
}

void HeatMap::row_name(std::size_t row, std::string_view name) const {
  const double middle = cell_ * (static_cast<double>(row) + 0.5);
  drawing_.text({corner_.x - kNameGap, corner_.y + middle + 4}, shortened(name, kNameLength),
                Align::kEnd, "small");
}

void HeatMap::column_name(std::size_t column, std::string_view name) const {
  const double middle = cell_ * (static_cast<double>(column) + 0.5),
               side = cell_ * static_cast<double>(count_);
  drawing_.text({corner_.x + middle + 3, corner_.y + side + kNameDrop},
                shortened(name, kNameLength), Align::kEnd, "small", -45);
}

double HeatMap::room_left(std::span<const std::string> names) {
  return widest_name(names) + kNameGap;
}

double HeatMap::room_below(std::span<const std::string> names) {
  return widest_name(names) * std::sqrt(0.5) + kNameDrop;
}

void draw_heat_scale(Drawing& drawing, Point corner, double height, const HeatScale& scale) {
  constexpr int kParts = 20;
  for (int i = 0; i < kParts; ++i) {
    const double top = corner.y + height * i / kParts;
    drawing.rectangle({corner.x, top}, 14, height / kParts, "heat", 1 - (i + 0.5) / kParts);
  }
  drawing.text({corner.x + 20, corner.y + 8}, scale.highest, Align::kStart, "small");
  drawing.text({corner.x + 20, corner.y + height}, scale.lowest, Align::kStart, "small");
  // A label that is longer than the scale begins at most 30 pixels above the scale.
  const double middle = std::max(height / 2, Drawing::small_width(scale.label) / 2 - 30);
  drawing.text({corner.x + 70, corner.y + middle}, scale.label, Align::kMiddle, "small", -90);
}

}  // namespace runner
