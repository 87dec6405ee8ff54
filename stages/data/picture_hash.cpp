#include "stages/data/picture_hash.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "stages/data/resize.h"

namespace stages {
namespace {

constexpr int kHashRows = 16, kHashBits = kHashRows * kHashRows;
constexpr int kNoise = 2;  // of 255

/// Who belongs together; Galler and Fischer, "An improved equivalence algorithm", 1964.
class Connections {
 public:
  explicit Connections(std::size_t count) : next_(count) { std::iota(next_.begin(), next_.end(), std::size_t{0}); }

  std::size_t head(std::size_t member) {
    while (next_[member] != member) member = next_[member] = next_[next_[member]];
    return member;
  }
  void connect(std::size_t one, std::size_t other) {
    const auto [first, last] = std::minmax(head(one), head(other));
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

PictureHash picture_hash(const Image& image) {
  const Image small = resize(image, {0, 0, image.width, image.height}, kHashRows + 1, kHashRows,
                             {0, 0, kHashRows + 1, kHashRows}, Interpolation::kBilinear);
  PictureHash hash{};
  for (int row = 0; row < kHashRows; ++row) {
    const std::uint8_t* pixel = small.row(row);
    const auto grey = [&](int column) {
      const std::uint8_t* const at = pixel + 3 * column;
      return (299 * at[0] + 587 * at[1] + 114 * at[2]) / 1000;
    };
    for (int column = 0; column < kHashRows; ++column) {
      const auto bit = static_cast<std::size_t>(row * kHashRows + column);
      if (grey(column + 1) > grey(column) + kNoise) hash[bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
  }
  return hash;
}

int distance(const PictureHash& one, const PictureHash& other) {
  int bits = 0;
  for (std::size_t i = 0; i < one.size(); ++i) bits += std::popcount(one[i] ^ other[i]);
  return bits;
}

std::vector<std::vector<std::size_t>> alike(std::span<const PictureHash> hashes, int most,
                                            const std::function<void()>& look) {
  // Equal hashes are one, so that a thousand black pictures are not compared with each other.
  std::map<PictureHash, std::vector<std::size_t>> of_hash;
  for (std::size_t i = 0; i < hashes.size(); ++i) of_hash[hashes[i]].push_back(i);
  std::vector<PictureHash> different;
  Connections connections(hashes.size());
  for (const auto& [hash, members] : of_hash) {
    different.push_back(hash);
    for (const std::size_t member : members) connections.connect(members.front(), member);
  }
  const int parts = std::clamp(most + 1, 4, kHashBits);  // of at most 64 bits
  for (int part = 0; part < parts; ++part) {
    std::vector<std::pair<std::uint64_t, const PictureHash*>> keyed;
    for (const PictureHash& hash : different)
      keyed.emplace_back(bits_of(hash, kHashBits * part / parts, kHashBits * (part + 1) / parts), &hash);
    std::ranges::sort(keyed);
    for (auto begin = keyed.begin(); begin != keyed.end();) {
      const auto end = std::find_if(begin, keyed.end(), [&](const auto& one) { return one.first != begin->first; });
      for (auto one = begin; one != end; ++one) {
        if (look) look();
        for (auto other = one + 1; other != end; ++other) {
          if (distance(*one->second, *other->second) <= most)
            connections.connect(of_hash.at(*one->second).front(), of_hash.at(*other->second).front());
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
