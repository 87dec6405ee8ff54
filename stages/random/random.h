#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "runner/shared/stage/split_mix.h"

namespace stages {

/// Random numbers that depend only on a key and a position, not on who draws them or in what order:
///
///   Random random({seed, epoch, index});
///   if (random.uniform() < probability) …
///
/// Uses SplitMix64, mixing in the elements of the key one after another.
class Random {
 public:
  explicit Random(std::initializer_list<std::uint64_t> key) {
    for (const std::uint64_t part : key)
      state_ = runner::split_mix(state_ + runner::kSplitMixStep + part);
  }

  std::uint64_t next() { return runner::split_mix(state_ += runner::kSplitMixStep); }
  /// Returns a multiple of 2^-53 in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Returns an integer in 0 … count-1; `count` must be positive. The bias is below count / 2^64.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(
        static_cast<unsigned __int128>(next()) * static_cast<std::uint64_t>(count) >> 64);
  }

 private:
  std::uint64_t state_ = 0;
};

/// Returns the positions of `names` in a random order that depends only on (seed, name). The
/// relative order of two names does not depend on the other names or their order.
std::vector<std::size_t> drawn_by_name(std::span<const std::string_view> names, std::uint64_t seed);

/// The numbers 0 … size-1 in an order that depends only on (seed, epoch). The order is not stored
/// as a list: each position can be looked up directly.
///
/// It is a Feistel network of eight rounds (Luby and Rackoff, "How to construct pseudorandom
/// permutations from pseudorandom functions", SIAM Journal on Computing 17, 1988) over the smallest
/// sufficient power of two. A result outside the range is sent through the network again until it
/// is inside: the "cycle-walking cipher" of Black and Rogaway, "Ciphers with arbitrary finite
/// domains", CT-RSA 2002. On average, this takes at most one more pass. The order is random enough
/// for sampling, but not for cryptography.
class Permutation {
 public:
  /// `size` must be positive.
  Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

  std::int64_t size() const { return size_; }
  /// `place` must be in 0 … size-1.
  std::int64_t operator[](std::int64_t place) const;

 private:
  static constexpr std::size_t kRounds = 8;
  std::uint64_t once(std::uint64_t value) const;

  std::int64_t size_;
  int high_bits_, low_bits_;  // bits of the two halves, at least one each
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace stages
