#pragma once

#include <cmath>
#include <numbers>

namespace stages {

// Random numbers drawn from `uniform`, which returns a double in (0, 1) on each call.

/// Draws from the standard normal distribution (Box and Muller, 1958).
template <typename Uniform>
double draw_normal(Uniform& uniform) {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

/// Draws from the gamma distribution with shape `alpha` and scale 1: Marsaglia and Tsang, "A simple
/// method for generating gamma variables", ACM TOMS 26, 2000.
template <typename Uniform>
double draw_gamma(Uniform& uniform, double alpha) {
  if (alpha < 1) {
    const double boosted = draw_gamma(uniform, alpha + 1);
    return boosted * std::pow(uniform(), 1 / alpha);
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(uniform), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace stages
