#pragma once

#include <cmath>

// How far what is counted or measured of random draws may be off what is expected of them: five
// standard deviations, which chance exceeds once in two million times.

inline constexpr double kDeviations = 5;

/// Of how many of `draws` are of a kind that has the probability `share`.
inline double count_error(double draws, double share) {
  return kDeviations * std::sqrt(draws * share * (1 - share));
}

/// Of the mean of `draws` numbers with that standard deviation.
inline double mean_error(double deviation, double draws) {
  return kDeviations * deviation / std::sqrt(draws);
}

/// Of the standard deviation of so many normal numbers; of uniform ones it is less.
inline double deviation_error(double deviation, double draws) {
  return kDeviations * deviation / std::sqrt(2 * draws);
}

/// How far the largest of `draws` uniform numbers below `most` may be below it, but for once in two
/// million times.
inline double largest_error(double most, double draws) { return most * std::log(2e6) / draws; }
