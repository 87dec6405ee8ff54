#include "stages/train/usual_size.h"

#include <algorithm>
#include <cmath>

namespace stages {

bool UsualSize::is_proportionate(double number) const {
  constexpr double kFirst = 1e6;
  return std::abs(number) <= (usual_ ? factor_ * *usual_ : kFirst);
}

bool UsualSize::observe(double number) {
  constexpr double kLeast = 1, kGrowth = 1.05;  // a loss of 0.01 after one of 0.0001 is nothing to speak of
  if (!is_proportionate(number)) return false;
  const double size = std::max(std::abs(number), kLeast);
  usual_ = usual_ ? std::max(*usual_, std::min(size, kGrowth * *usual_)) : size;
  return true;
}

}  // namespace stages
