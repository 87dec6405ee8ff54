#pragma once

#include <cstdint>

#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The numbers of a range sweep, start + i·step, without accumulating rounding errors:
/// range(0,1,0.1) contains 0.3, not 0.30000000000000004. They are integers if start, stop and step
/// are, otherwise floats.
class NumberRange {
 public:
  /// Fails if step is 0, a bound is not finite, or the numbers need more than 36 digits in a common
  /// unit.
  static Result<NumberRange> make(const Sweep& range);

  /// Returns the number of values; the maximum of the type if there are more.
  std::uint64_t size() const { return size_; }
  /// Returns the number at `index`, which must be below size().
  Value operator[](std::uint64_t index) const;
  /// Returns the reverse of `range`, from which this object was made and which must not be empty.
  Sweep reversed(Sweep range) const;

 private:
  using Wide = __int128;

  Value number(Wide units, bool is_integer) const;

  Wide start_ = 0, step_ = 0;  // multiplied by ten to the power of exponent_
  int exponent_ = 0;
  bool are_integers_ = true;
  std::uint64_t size_ = 0;
  Location where_;
};

}  // namespace runner
