#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// Returns a negative number if `a` sorts before `b`, 0 if they are equal, and a positive number if
/// `a` sorts after `b`. Numbers and booleans are compared by value, strings by their bytes, and
/// lists item by item. nullopt if there is no order: null, mappings, quoted strings, values of
/// different types.
std::optional<int> compare(const Value& a, const Value& b);

/// Random orders that depend only on a seed and are the same on every machine. A 64-bit Mersenne
/// Twister drives a Fisher-Yates shuffle that goes from the last position to the second. A number
/// below n is a draw modulo n; draws below 2^64 modulo n are rejected.
class SeededOrder {
 public:
  explicit SeededOrder(std::uint64_t seed) : random_(seed) {}

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  std::uint64_t draw() { return random_(); }
  /// Returns a number below `bound`, which must be at least 1.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t beyond = -bound % bound;  // 2^64 modulo bound
    std::uint64_t draw = random_();
    while (draw < beyond) draw = random_();
    return draw % bound;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace runner
