#pragma once

#include <cstdint>
#include <vector>

namespace runner {

/// Random numbers that depend only on the seed.
class DrawnNumbers {
 public:
  explicit DrawnNumbers(std::uint64_t seed);
  /// Returns a number below `limit`, which must be at most 2^32: the high bits of a product.
  std::size_t below(std::uint64_t limit);

 private:
  std::uint64_t state_;
};

/// Returns the number of bootstrap draws for this many samples: 10,000, but fewer for many samples,
/// to keep the time for all draws within seconds.
std::int64_t bootstrap_draws(std::int64_t samples);

/// A 95% confidence interval.
struct BootstrapInterval {
  double low = 0, high = 0;
};

/// Returns the 2.5th and 97.5th percentiles of `draws`, interpolated linearly. Sorts `draws`, which
/// must not be empty.
BootstrapInterval bootstrap_interval(std::vector<double>& draws);

}  // namespace runner
