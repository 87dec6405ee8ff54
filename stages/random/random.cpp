#include "stages/random/random.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <tuple>

#include "runner/shared/stage/split_mix.h"

namespace stages {

std::vector<std::size_t> drawn_by_name(std::span<const std::string_view> names,
                                       std::uint64_t seed) {
  struct Drawn {
    std::uint64_t number;
    std::size_t place;
  };
  std::vector<Drawn> drawn;
  for (std::size_t place = 0; place < names.size(); ++place)
    drawn.push_back({Random({seed, runner::fnv1a(names[place])}).next(), place});
  std::ranges::sort(drawn, [&](const Drawn& a, const Drawn& b) {
    return std::tie(a.number, names[a.place], a.place) <
           std::tie(b.number, names[b.place], b.place);
  });
  std::vector<std::size_t> places;
  for (const Drawn& one : drawn) places.push_back(one.place);
  return places;
}

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
