#include "stages/random/permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "stages/random/random.h"

namespace stages {
namespace {

std::uint64_t lowest(std::uint64_t value, int bits) {
  return value & ((std::uint64_t{1} << bits) - 1);
}

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch) : size_(size) {
  assert(size > 0);
  const int bits = std::max<int>(2, std::bit_width(static_cast<std::uint64_t>(size) - 1));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  Random random({seed, static_cast<std::uint64_t>(epoch)});
  std::ranges::generate(keys_, [&] { return random.next(); });
}

std::int64_t Permutation::operator[](std::int64_t place) const {
  assert(place >= 0 && place < size_);
  auto value = static_cast<std::uint64_t>(place);
  do value = once(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::once(std::uint64_t value) const {
  std::uint64_t high = value >> low_bits_, low = lowest(value, low_bits_);
  for (std::size_t round = 0; round < kRounds; round += 2) {
    high ^= lowest(Random({keys_[round], low}).next(), high_bits_);
    low ^= lowest(Random({keys_[round + 1], high}).next(), low_bits_);
  }
  return high << low_bits_ | low;
}

}  // namespace stages
