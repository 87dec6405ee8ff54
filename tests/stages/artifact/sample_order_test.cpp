#include "stages/artifact/loader.h"
#include "tests/support/chance.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stages {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> listed(const SampleOrder& order) {
  std::vector<std::int64_t> list;
  for (std::int64_t place = 0; place < order.size(); ++place) list.push_back(order[place]);
  return list;
}

std::vector<std::int64_t> counted(std::int64_t size) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(size));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

/// Counts how often each value of 0 … size-1 comes first in 5000 epochs.
template <typename Order>
std::vector<int> first_ones(std::int64_t size, Order order_of) {
  std::vector<int> counts(static_cast<std::size_t>(size));
  for (std::int64_t epoch = 0; epoch < 5000; ++epoch)
    ++counts[static_cast<std::size_t>(order_of(size, 9, epoch)[0])];
  return counts;
}

TEST(ShuffledOrder, IsAPermutationThatDependsOnSeedAndEpoch) {
  auto order = listed(shuffled_order(100, 1, 0));
  EXPECT_EQ(order, listed(shuffled_order(100, 1, 0)));
  EXPECT_NE(order, listed(shuffled_order(100, 1, 1)));
  EXPECT_NE(order, listed(shuffled_order(100, 2, 0)));
  std::ranges::sort(order);
  EXPECT_EQ(order, counted(100));
  EXPECT_EQ(shuffled_order(0, 1, 0).size(), 0);
}

TEST(ShuffledOrder, MatchesTheRecordedOrder) {
  EXPECT_THAT(listed(shuffled_order(10, 42, 3)), ElementsAre(6, 5, 0, 2, 8, 9, 3, 7, 1, 4));
  const SampleOrder order = shuffled_order(10'000'001, 42, 3);
  EXPECT_EQ(order[0], 2516666);
  EXPECT_EQ(order[1], 3948494);
  EXPECT_EQ(order[5'000'000], 1411318);
  EXPECT_EQ(order[10'000'000], 1899579);
}

TEST(ShuffledOrder, EveryPositionIsEquallyLikely) {
  for (const int count : first_ones(5, shuffled_order))
    EXPECT_NEAR(count, 1000, count_error(5000, 0.2));
}

TEST(ShuffledOrder, HandlesMoreSamplesThanFitInMemory) {
  const std::int64_t size = std::int64_t{1} << 60;
  const SampleOrder order = shuffled_order(size, 3, 1);
  EXPECT_EQ(order.size(), size);
  std::set<std::int64_t> seen;
  for (const std::int64_t start : {std::int64_t{0}, size / 3, size - 1000}) {
    for (std::int64_t place = start; place < start + 1000; ++place) {
      const std::int64_t index = order[place];
      ASSERT_TRUE(index >= 0 && index < size) << place;
      seen.insert(index);
    }
  }
  EXPECT_EQ(seen.size(), 3000u);
}

TEST(SequentialOrder, CountsWithoutUsingMemory) {
  EXPECT_EQ(listed(sequential_order(5)), counted(5));
  EXPECT_EQ(sequential_order(std::int64_t{1} << 60)[123456789012], 123456789012);
}

TEST(Permutation, ContainsEveryNumberOnce) {
  std::vector<std::int64_t> sizes = {127, 128, 129, 1000, 65'535, 65'536, 65'537, 10'000'001};
  for (std::int64_t size = 1; size <= 70; ++size) sizes.push_back(size);
  for (const std::int64_t size : sizes) {
    const Permutation permutation(size, 7, size % 5);
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (std::int64_t place = 0; place < size; ++place) {
      const std::int64_t value = permutation[place];
      ASSERT_TRUE(value >= 0 && value < size) << size;
      ASSERT_FALSE(seen[static_cast<std::size_t>(value)]) << size;
      seen[static_cast<std::size_t>(value)] = true;
    }
  }
}

TEST(Permutation, PositionsCanBeReadInAnyOrder) {
  const Permutation permutation(1001, 1, 2);
  std::vector<std::int64_t> forwards, backwards;
  for (std::int64_t place = 0; place < 1001; ++place) forwards.push_back(permutation[place]);
  for (std::int64_t place = 1000; place >= 0; --place)
    backwards.push_back(Permutation(1001, 1, 2)[place]);
  std::ranges::reverse(backwards);
  EXPECT_EQ(forwards, backwards);
}

TEST(Permutation, DiffersBetweenEpochsAndSeeds) {
  const Permutation a(1000, 1, 0), b(1000, 1, 1), c(1000, 2, 0);
  int as_b = 0, as_c = 0;
  for (std::int64_t place = 0; place < 1000; ++place) {
    as_b += a[place] == b[place];
    as_c += a[place] == c[place];
  }
  EXPECT_LT(as_b, 10);  // 1 is expected
  EXPECT_LT(as_c, 10);
}

TEST(Permutation, EveryPositionIsEquallyLikely) {
  const auto make = [](std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
    return Permutation(size, seed, epoch);
  };
  for (const int count : first_ones(5, make)) EXPECT_NEAR(count, 1000, count_error(5000, 0.2));
}

/// Compares ten ranges of positions with ten ranges of values, and values with those at the next
/// position: all pairs are about equally frequent.
TEST(Permutation, IsUniformAndIndependentOfNeighbors) {
  constexpr std::int64_t kSize = 10'000'019, kSamples = 200'000;
  const Permutation permutation(kSize, 11, 4);
  std::vector<int> by_place(100), by_neighbor(100);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const std::int64_t place = i * (kSize / kSamples);
    const std::int64_t value = permutation[place] * 10 / kSize,
                       next = permutation[place + 1] * 10 / kSize;
    ++by_place[static_cast<std::size_t>(place * 10 / kSize * 10 + value)];
    ++by_neighbor[static_cast<std::size_t>(value * 10 + next)];
  }
  for (const int count : by_place) EXPECT_NEAR(count, 2000, count_error(kSamples, 0.01));
  for (const int count : by_neighbor) EXPECT_NEAR(count, 2000, count_error(kSamples, 0.01));
}

}  // namespace
}  // namespace stages
