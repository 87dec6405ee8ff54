#include "stages/machine/block_pool.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;

TEST(Arena, SmallestSufficientBlockIsUsed) {
  Arena arena({0, 1000});
  const std::int64_t large = *arena.allocate(100), a = *arena.allocate(1),
                     small = *arena.allocate(50);
  arena.allocate(1);
  arena.free(large);
  arena.free(small);
  EXPECT_EQ(arena.allocate(40), small);
  EXPECT_EQ(arena.allocate(60), large);
  EXPECT_EQ(a, 100);
}

TEST(Arena, LowestAddressIsUsedAmongEqualBlocks) {
  Arena arena({0, 1000});
  std::vector<std::int64_t> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(*arena.allocate(10));
  for (const int i : {3, 1}) arena.free(blocks[static_cast<std::size_t>(i)]);
  EXPECT_EQ(arena.allocate(10), 10);
  EXPECT_EQ(arena.allocate(10), 30);
  EXPECT_EQ(arena.allocate(10), 60);
}

TEST(Arena, FreedBlockMergesWithBothNeighbors) {
  Arena arena({0, 100});
  const std::int64_t a = *arena.allocate(10), b = *arena.allocate(20), c = *arena.allocate(30);
  arena.allocate(40);
  arena.free(a);
  arena.free(c);
  EXPECT_THAT(arena.unused(), ElementsAre(AddressRange{0, 10}, AddressRange{30, 60}));
  EXPECT_EQ(arena.free(b), 20);
  EXPECT_THAT(arena.unused(), ElementsAre(AddressRange{0, 60}));
  EXPECT_EQ(arena.allocate(61), std::nullopt);
}

/// Uses only the list of blocks in use: every gap between two of them is an unused block.
class NaiveArena {
 public:
  explicit NaiveArena(std::int64_t end) : end_(end) {}
  std::optional<std::int64_t> allocate(std::int64_t bytes) {
    std::optional<AddressRange> best;
    for (const AddressRange& gap : gaps()) {
      if (gap.bytes() >= bytes && (!best || gap.bytes() < best->bytes())) best = gap;
    }
    if (!best) return {};
    used_.push_back({best->begin, best->begin + bytes});
    return best->begin;
  }
  void free(std::int64_t begin) {
    std::erase_if(used_, [&](const AddressRange& one) { return one.begin == begin; });
  }
  std::vector<AddressRange> gaps() {
    std::ranges::sort(used_, {}, &AddressRange::begin);
    std::vector<AddressRange> gaps;
    std::int64_t from = 0;
    for (const AddressRange& one : used_) {
      if (one.begin > from) gaps.push_back({from, one.begin});
      from = one.end;
    }
    if (end_ > from) gaps.push_back({from, end_});
    return gaps;
  }
  const std::vector<AddressRange>& used() const { return used_; }

 private:
  std::vector<AddressRange> used_;
  const std::int64_t end_;
};

TEST(Arena, FollowsTheRuleForAnySequence) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    std::mt19937 random(seed);
    Arena arena({0, 4000});
    NaiveArena naive(4000);
    for (int i = 0; i < 2000; ++i) {
      if (random() % 2 == 0 || naive.used().empty()) {
        const std::int64_t bytes = 1 + random() % (random() % 8 == 0 ? 900 : 60);
        ASSERT_EQ(arena.allocate(bytes), naive.allocate(bytes));
      } else {
        const AddressRange block = naive.used()[random() % naive.used().size()];
        ASSERT_EQ(arena.free(block.begin), block.bytes());
        naive.free(block.begin);
      }
      ASSERT_EQ(arena.unused(), naive.gaps());
    }
  }
}

}  // namespace
}  // namespace stages
