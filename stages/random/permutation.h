#pragma once

#include <array>
#include <cstdint>

namespace stages {

/// The numbers 0 … size-1 in an order that is a function of (seed, epoch). No list is made; any
/// place can be looked up directly and in any order.
///
/// A Feistel network of eight rounds (Luby and Rackoff, "How to construct pseudorandom permutations
/// from pseudorandom functions", SIAM Journal on Computing 17, 1988) over the smallest power of two
/// that holds the numbers. A result outside the range is sent through again until it is inside, at
/// most once more on average: the "cycle-walking cipher" of Black and Rogaway, "Ciphers with
/// arbitrary finite domains", CT-RSA 2002. It mixes well enough for sampling; it is not secure.
class Permutation {
 public:
  /// `size` is positive.
  Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

  std::int64_t size() const { return size_; }
  /// `place` is in 0 … size-1.
  std::int64_t operator[](std::int64_t place) const;

 private:
  static constexpr std::size_t kRounds = 8;
  std::uint64_t once(std::uint64_t value) const;

  std::int64_t size_;
  int high_bits_, low_bits_;  // the alternating halves; both have at least one bit
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace stages
