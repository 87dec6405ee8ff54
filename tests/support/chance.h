#pragma once

#include <cmath>

// How far a count or a measurement of random draws may deviate from its expected value: five
// standard deviations, which chance exceeds once in two million times.

inline constexpr double kDeviations = 5;

/// The error of the number of draws, out of `draws`, that have a property with probability `share`.
inline double count_error(double draws, double share) {
  return kDeviations * std::sqrt(draws * share * (1 - share));
}

/// The error of the mean of `draws` random values with this standard deviation.
inline double mean_error(double deviation, double draws) {
  return kDeviations * deviation / std::sqrt(draws);
}

/// The error of the standard deviation of `draws` normal numbers; for uniform numbers it is
/// smaller.
inline double deviation_error(double deviation, double draws) {
  return kDeviations * deviation / std::sqrt(2 * draws);
}

/// How far the largest of `draws` uniform numbers below `most` may be from it, except once in two
/// million times.
inline double largest_error(double most, double draws) { return most * std::log(2e6) / draws; }
