#pragma once

#include <cstdint>
#include <string_view>

namespace runner {

/// The amount by which SplitMix64 increments its state for each number.
inline constexpr std::uint64_t kSplitMixStep = 0x9E3779B97F4A7C15;

/// The finalizer of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014. Flipping any bit of `z` changes about half the bits of the result.
constexpr std::uint64_t split_mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

/// Returns the 64-bit FNV-1a hash of a name, for deriving seeds from names.
constexpr std::uint64_t fnv1a(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  return hash;
}

}  // namespace runner
