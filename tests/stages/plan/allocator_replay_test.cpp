#include "stages/plan/allocator_replay.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST(AllocatorReplay, SmallBlockGetsASegmentOfTwoMebibytes) {
  AllocatorReplay replay({});
  ASSERT_TRUE(replay.allocate(0, 100));
  EXPECT_EQ(replay.allocated(), 512);
  EXPECT_EQ(replay.reserved(), 2 * kMiB);
  EXPECT_EQ(replay.segments(), 1);
}

TEST(AllocatorReplay, SmallBlocksShareASegment) {
  AllocatorReplay replay({});
  replay.allocate(0, kMiB);
  replay.allocate(1, kMiB);
  EXPECT_EQ(replay.segments(), 1);
  replay.allocate(2, 1);
  EXPECT_EQ(replay.segments(), 2);
  EXPECT_EQ(replay.reserved(), 4 * kMiB);
}

TEST(AllocatorReplay, PoolsAreSeparate) {
  AllocatorReplay replay({});
  replay.allocate(0, 2 * kMiB);
  replay.allocate(1, 512);
  EXPECT_EQ(replay.reserved(), 22 * kMiB);
}

TEST(AllocatorReplay, MediumBlockIsSplitFromTwentyMebibytes) {
  AllocatorReplay replay({});
  replay.allocate(0, 5 * kMiB);
  replay.allocate(1, 9 * kMiB);
  replay.allocate(2, 6 * kMiB);
  EXPECT_EQ(replay.reserved(), 20 * kMiB);
  replay.allocate(3, 2 * kMiB);
  EXPECT_EQ(replay.reserved(), 40 * kMiB);
}

TEST(AllocatorReplay, LargeBlockIsRoundedToTwoMebibytes) {
  AllocatorReplay replay({});
  replay.allocate(0, 12 * kMiB);
  EXPECT_EQ(replay.reserved(), 12 * kMiB);
  replay.allocate(1, 12 * kMiB + 1);
  EXPECT_EQ(replay.reserved(), 26 * kMiB);
}

TEST(AllocatorReplay, RemainderOfAMebibyteIsNotSplitOff) {
  AllocatorReplay replay({});
  replay.allocate(0, 13 * kMiB);
  EXPECT_EQ(replay.reserved(), 14 * kMiB);
  EXPECT_EQ(replay.allocated(), 14 * kMiB);
}

TEST(AllocatorReplay, NeighborsMerge) {
  AllocatorReplay replay({});
  for (std::size_t name = 0; name < 4; ++name) replay.allocate(name, 5 * kMiB);
  replay.free(1);
  replay.free(3);
  replay.free(2);
  replay.allocate(4, 15 * kMiB - 512);
  EXPECT_EQ(replay.reserved(), 20 * kMiB);
  EXPECT_EQ(replay.segments(), 1);
}

TEST(AllocatorReplay, BlockInUsePreventsMerging) {
  AllocatorReplay replay({});
  for (std::size_t name = 0; name < 4; ++name) replay.allocate(name, 5 * kMiB);
  replay.free(1);
  replay.free(3);
  replay.allocate(4, 6 * kMiB);
  EXPECT_EQ(replay.reserved(), 40 * kMiB);
}

TEST(AllocatorReplay, BestFitIsUsed) {
  AllocatorReplay replay({});
  replay.allocate(0, 30 * kMiB);
  replay.allocate(1, 24 * kMiB);
  replay.free(0);
  replay.free(1);
  replay.allocate(2, 24 * kMiB);  // 30 stays whole
  replay.allocate(3, 30 * kMiB);
  EXPECT_EQ(replay.reserved(), 54 * kMiB);
}

TEST(AllocatorReplay, UnusedSegmentsAreReturnedBeforeAnAllocationFails) {
  AllocatorReplay replay({.limit = 40 * kMiB});
  replay.allocate(0, 30 * kMiB);
  replay.free(0);
  EXPECT_TRUE(replay.allocate(1, 36 * kMiB));
  EXPECT_EQ(replay.retries(), 1);
  EXPECT_EQ(replay.reserved(), 36 * kMiB);
}

TEST(AllocatorReplay, FailsAboveItsLimit) {
  AllocatorReplay replay({.limit = 40 * kMiB});
  ASSERT_TRUE(replay.allocate(0, 30 * kMiB));
  EXPECT_FALSE(replay.allocate(1, 12 * kMiB));
  EXPECT_EQ(replay.allocated(), 30 * kMiB);
  EXPECT_TRUE(replay.allocate(2, 10 * kMiB));
}

TEST(AllocatorReplay, ExpandableSegmentGrows) {
  AllocatorReplay replay({.expandable_segments = true});
  replay.allocate(0, 30 * kMiB);
  EXPECT_EQ(replay.reserved(), 40 * kMiB);
  replay.free(0);
  replay.allocate(1, 50 * kMiB);
  EXPECT_EQ(replay.reserved(), 60 * kMiB);
  EXPECT_EQ(replay.segments(), 1);
}

TEST(AllocatorReplay, FixedSegmentsNeedBothSizesForTheSameGrowth) {
  AllocatorReplay replay({});
  replay.allocate(0, 30 * kMiB);
  replay.free(0);
  replay.allocate(1, 50 * kMiB);
  EXPECT_EQ(replay.reserved(), 80 * kMiB);
}

TEST(AllocatorReplay, EndOfAnExpandableSegmentIsUsedLast) {
  AllocatorReplay replay({.expandable_segments = true});
  replay.allocate(0, 12 * kMiB);
  replay.allocate(1, 2 * kMiB);  // 6 are left at the end
  replay.free(0);
  replay.allocate(2, 5 * kMiB);  // from the 12
  replay.allocate(3, 7 * kMiB);  // its rest
  replay.allocate(4, 6 * kMiB);
  EXPECT_EQ(replay.reserved(), 20 * kMiB);
}

TEST(AllocatorReplay, ExpandableSegmentReturnsItsEnd) {
  AllocatorReplay replay({.expandable_segments = true, .limit = 60 * kMiB});
  replay.allocate(0, 50 * kMiB);
  replay.free(0);
  replay.allocate(1, 512);
  EXPECT_EQ(replay.reserved(), 2 * kMiB);
  EXPECT_EQ(replay.retries(), 1);
}

TEST(AllocatorReplay, SizesCanBeRoundedToFractionsOfPowersOfTwo) {
  AllocatorReplay replay({.roundup_power2_divisions = 4});
  replay.allocate(0, 1200 * 1024);
  EXPECT_EQ(replay.allocated(), 1280 * 1024);
  replay.allocate(1, 2 * kMiB);
  EXPECT_EQ(replay.allocated(), 1280 * 1024 + 2 * kMiB);
}

TEST(AllocatorReplay, SplittingOfLargeBlocksCanBeDisabled) {
  AllocatorReplay replay({.max_split_size = 20 * kMiB});
  replay.allocate(0, 30 * kMiB);
  replay.free(0);
  replay.allocate(1, 5 * kMiB);
  EXPECT_EQ(replay.reserved(), 50 * kMiB);
}

TEST(AllocatorReplay, EmptyCacheReturnsWholeSegments) {
  AllocatorReplay replay({});
  replay.allocate(0, 30 * kMiB);
  replay.allocate(1, 5 * kMiB);
  replay.allocate(2, 5 * kMiB);
  replay.free(0);
  replay.free(2);
  replay.empty_cache();
  EXPECT_EQ(replay.reserved(), 20 * kMiB);
  EXPECT_EQ(replay.peak_reserved(), 50 * kMiB);
}

}  // namespace
}  // namespace stages
