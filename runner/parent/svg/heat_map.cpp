#include "runner/parent/svg/heat_map.h"

#include <algorithm>

#include "runner/parent/svg/plot.h"

namespace runner {

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
  constexpr std::size_t kNameLength = 24;
  const std::string shown = shortened(name, kNameLength);
  const double middle = cell_ * (static_cast<double>(place) + 0.5),
               side = cell_ * static_cast<double>(count_);
  drawing_.text({corner_.x - 8, corner_.y + middle + 4}, shown, Align::kEnd, "small");
  drawing_.text({corner_.x + middle + 3, corner_.y + side + 14}, shown, Align::kEnd, "small", -45);
}

}  // namespace runner
