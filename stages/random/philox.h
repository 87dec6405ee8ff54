#pragma once

#include <cstdint>

#include "stages/tensor/host_device.h"

namespace stages {

// Philox4x32-10 computes four random words from four counter words and two key words. Each number
// of a stream therefore costs the same and does not depend on any other number. See Salmon, Moraes,
// Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The words equal those of
// Random123's philox4x32_R(10, …) and of curand.

inline constexpr int kPhiloxRounds = 10;
inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;

/// Applies one round to the words of one counter. The arguments are scalars so that the compiler
/// can vectorize loops over counters.
RETORT_HOST_DEVICE inline void philox_round(std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2,
                                            std::uint32_t& c3, std::uint32_t k0, std::uint32_t k1) {
  const std::uint64_t a = std::uint64_t{kPhiloxMultiplier0} * c0,
                      b = std::uint64_t{kPhiloxMultiplier1} * c2;
  c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
  c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
  c1 = static_cast<std::uint32_t>(b);
  c3 = static_cast<std::uint32_t>(a);
}

/// Advances the key to the next round.
RETORT_HOST_DEVICE inline void next_philox_key(std::uint32_t& k0, std::uint32_t& k1) {
  k0 += 0x9E3779B9;
  k1 += 0xBB67AE85;
}

struct PhiloxWords {
  std::uint32_t word[4];
};

RETORT_HOST_DEVICE inline PhiloxWords philox(PhiloxWords counter, std::uint32_t k0,
                                             std::uint32_t k1) {
  auto& c = counter.word;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(c[0], c[1], c[2], c[3], k0, k1);
    next_philox_key(k0, k1);
  }
  return counter;
}

}  // namespace stages
