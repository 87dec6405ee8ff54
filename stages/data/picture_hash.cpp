#include "stages/data/picture_hash.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

#include "stages/data/resize.h"

namespace stages {
namespace {

constexpr int kHashRows = 16, kHashColumns = 16, kHashBits = kHashRows * kHashColumns;
constexpr int kNoise = 1;  // of 255

/// Who belongs together; Galler and Fischer, "An improved equivalence algorithm", 1964.
class Connections {
 public:
  explicit Connections(std::size_t count) : next_(count) { std::iota(next_.begin(), next_.end(), std::size_t{0}); }

  std::size_t head(std::size_t member) {
    while (next_[member] != member) member = next_[member] = next_[next_[member]];
    return member;
  }
  void connect(std::size_t one, std::size_t other) {
    const auto [first, last] = std::minmax({head(one), head(other)});  // two numbers: of references they would be gone
    next_[last] = first;
  }

 private:
  std::vector<std::size_t> next_;
};

/// Bits `begin` to `end`, at most 64 of them.
std::uint64_t bits_of(const PictureHash& hash, int begin, int end) {
  std::uint64_t bits = 0;
  for (int bit = begin; bit < end; ++bit)
    bits = bits << 1 | (hash[static_cast<std::size_t>(bit / 64)] >> (bit % 64) & 1);
  return bits;
}

}  // namespace

Thumbnail thumbnail(const Image& image) {
  const Image small = resize(image, kHashColumns + 1, kHashRows, Interpolation::kBilinear);
  Thumbnail seen{};
  for (std::size_t place = 0; place < seen.size(); ++place) {
    const std::uint8_t* const pixel = &small.pixels[3 * place];
    seen[place] = static_cast<std::uint8_t>((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2]) / 1000);
  }
  return seen;
}

double mean_difference(const Thumbnail& one, const Thumbnail& other) {
  int sum = 0;
  for (std::size_t place = 0; place < one.size(); ++place) sum += std::abs(one[place] - other[place]);
  return static_cast<double>(sum) / static_cast<double>(one.size());
}

PictureHash picture_hash(const Thumbnail& seen) {
  PictureHash hash{};
  for (std::size_t bit = 0; bit < kHashBits; ++bit) {
    const std::size_t place = bit / kHashColumns * (kHashColumns + 1) + bit % kHashColumns;
    if (seen[place + 1] > seen[place] + kNoise) hash[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  return hash;
}

// Without the processor's own instruction this takes twice as long.
#if defined(__x86_64__)
__attribute__((target_clones("popcnt", "default")))
#endif
int distance(const PictureHash& one, const PictureHash& other) {
  return std::popcount(one[0] ^ other[0]) + std::popcount(one[1] ^ other[1]) + std::popcount(one[2] ^ other[2]) +
         std::popcount(one[3] ^ other[3]);
}

std::vector<std::vector<std::size_t>> alike(std::span<const PictureHash> hashes, int most,
                                            const std::function<bool(std::size_t, std::size_t)>& confirm,
                                            const std::function<void()>& look) {
  // Equal hashes are one, so that a thousand black pictures are not compared with each other.
  std::map<PictureHash, std::vector<std::size_t>> of_hash;
  for (std::size_t i = 0; i < hashes.size(); ++i) of_hash[hashes[i]].push_back(i);
  std::vector<PictureHash> different;
  Connections connections(hashes.size());
  for (const auto& [hash, members] : of_hash) {
    different.push_back(hash);
    for (const std::size_t member : members)
      if (confirm(members.front(), member)) connections.connect(members.front(), member);
  }
  const int parts = std::clamp(most + 1, 4, kHashBits);  // of at most 64 bits
  for (int part = 0; part < parts; ++part) {
    std::vector<std::pair<std::uint64_t, PictureHash>> keyed;
    for (const PictureHash& hash : different)
      keyed.emplace_back(bits_of(hash, kHashBits * part / parts, kHashBits * (part + 1) / parts), hash);
    std::ranges::sort(keyed);
    for (auto begin = keyed.begin(); begin != keyed.end();) {
      const auto end = std::find_if(begin, keyed.end(), [&](const auto& one) { return one.first != begin->first; });
      for (auto one = begin; one != end; ++one) {
        if (look) look();
        for (auto other = one + 1; other != end; ++other) {
          if (distance(one->second, other->second) > most) continue;
          const std::size_t first = of_hash.at(one->second).front(), second = of_hash.at(other->second).front();
          if (confirm(first, second)) connections.connect(first, second);
        }
      }
      begin = end;
    }
  }
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < hashes.size(); ++i) groups[connections.head(i)].push_back(i);
  std::vector<std::vector<std::size_t>> result;
  for (auto& [head, members] : groups)
    if (members.size() > 1) result.push_back(std::move(members));
  return result;
}

}  // namespace stages
