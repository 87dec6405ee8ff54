#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace runner {

/// One step of reading a number from left to right: what was read so far is multiplied, then added to. Both below 128.
struct NumberStep {
  std::uint32_t factor;
  std::uint32_t addend;
};

/// The decimal digits of the number that `steps` lead to from zero, however large it is; without leading zeros.
std::string decimal_digits(std::span<const NumberStep> steps);

}  // namespace runner
