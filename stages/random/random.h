#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "runner/shared/stage/split_mix.h"

namespace stages {

/// Random numbers that are a function of a key and a position, independent of who draws and in
/// which order:
///
///   Random random({seed, epoch, index});
///   if (random.uniform() < probability) …
///
/// SplitMix64; the parts of the key are mixed in one after another.
class Random {
 public:
  explicit Random(std::initializer_list<std::uint64_t> key) {
    for (const std::uint64_t part : key)
      state_ = runner::split_mix(state_ + runner::kSplitMixStep + part);
  }

  std::uint64_t next() { return runner::split_mix(state_ += runner::kSplitMixStep); }
  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In 0 … count-1; `count` is positive. Its bias is below count / 2^64.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(
        static_cast<unsigned __int128>(next()) * static_cast<std::uint64_t>(count) >> 64);
  }

 private:
  std::uint64_t state_ = 0;
};

/// The positions of `names` in an order drawn from (seed, name) alone: the relative order of two
/// names does not depend on which other names there are or on their order.
std::vector<std::size_t> drawn_by_name(std::span<const std::string_view> names, std::uint64_t seed);

}  // namespace stages
