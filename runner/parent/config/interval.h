#pragma once

#include <cstdint>

#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What interval(start,end) is drawn from: numbers from start to below end, integers where both are
/// (an interval in int()). By tag(log,...) their logarithms are drawn evenly. Real numbers have six
/// significant digits, so that they can be read and are the same whatever computes the logarithm.
class Interval {
 public:
  /// Fails where a bound is not finite, end is not above start, start of a logarithmic one is not
  /// above 0, or a tag is not known.
  static Result<Interval> make(const Sweep& interval);

  /// How many numbers it has; as large as the type for real ones.
  std::uint64_t size() const;
  /// What the 64 random bits `draw` choose.
  Value at(std::uint64_t draw) const;

 private:
  double start_ = 0, stop_ = 0;
  bool is_logarithmic_ = false;
  bool is_integer_ = false;
  Location where_;
};

}  // namespace runner
