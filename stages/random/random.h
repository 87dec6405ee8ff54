#pragma once

#include <cstdint>
#include <initializer_list>

namespace stages {

/// Random numbers that are a function of a key and a position, whoever asks and in whatever order:
///
///   Random random({seed, epoch, index});
///   if (random.uniform() < probability) …
///
/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; the key's parts
/// are mixed in one after another.
class Random {
 public:
  explicit Random(std::initializer_list<std::uint64_t> key) {
    for (const std::uint64_t part : key) state_ = mixed(state_ + kStep + part);
  }

  std::uint64_t next() { return mixed(state_ += kStep); }
  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In 0 … count-1; `count` is positive. Its bias is below count / 2^64.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(static_cast<unsigned __int128>(next()) * static_cast<std::uint64_t>(count) >> 64);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;
  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  std::uint64_t state_ = 0;
};

}  // namespace stages
