#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "stages/random/permutation.h"

namespace stages {

/// Which sample of a dataset stands at which place of a pass. Values; any place may be asked for at
/// any time.
class SampleOrder {
 public:
  /// The indices as they are listed.
  SampleOrder(std::vector<std::int64_t> indices) : order_(std::move(indices)) {}
  SampleOrder(Permutation permutation) : order_(permutation) {}
  /// 0 … size-1; takes no memory.
  static SampleOrder sequential(std::int64_t size) { return SampleOrder(Sequence{size}); }

  std::int64_t size() const;
  /// `place` is in 0 … size-1.
  std::int64_t operator[](std::int64_t place) const;

 private:
  struct Sequence {
    std::int64_t length;
    std::int64_t size() const { return length; }
    std::int64_t operator[](std::int64_t place) const { return place; }
  };
  explicit SampleOrder(Sequence sequence) : order_(sequence) {}

  std::variant<Sequence, std::vector<std::int64_t>, Permutation> order_;
};

/// The most samples whose shuffled order is a list (80 MB).
inline constexpr std::int64_t kLongestListedOrder = 10'000'000;

/// 0 … size-1, shuffled as a function of (seed, epoch) alone. Every order is as likely up to
/// kLongestListedOrder samples: the list is shuffled. Beyond, it is a Permutation and takes no
/// memory, whatever the size.
SampleOrder shuffled_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// 0 … size-1.
SampleOrder sequential_order(std::int64_t size);

}  // namespace stages
