#pragma once

#include <cstdint>

#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The distribution of interval(start,end): numbers from start up to but excluding end. They are
/// integers if both bounds are, for example if the interval is inside int(). With tag(log,...) it
/// is log-uniform. Real numbers are rounded to six significant digits, so they are readable and do
/// not depend on the machine's implementation of logarithms.
class Interval {
 public:
  /// Fails if a bound is not finite, end is at most start, a logarithmic interval does not start
  /// above 0, or a tag is unknown.
  static Result<Interval> make(const Sweep& interval);

  /// Returns the number of values; for real numbers, the maximum of the type.
  std::uint64_t size() const;
  /// Returns the value selected by the 64 random bits `draw`.
  Value at(std::uint64_t draw) const;

 private:
  double start_ = 0, stop_ = 0;
  bool is_logarithmic_ = false;
  bool is_integer_ = false;
  Location where_;
};

}  // namespace runner
