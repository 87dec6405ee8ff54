#include "stages/machine/block_pool.h"

#include <map>
#include <random>

#include <gmock/gmock.h>

namespace stages {
namespace {

constexpr std::int64_t kPage = BlockPool::kPage, kMebibyte = 1 << 20;

/// Records the pages that it has provided, at most `all` bytes.
class CountedPages final : public Pages {
 public:
  bool take(AddressRange range) override {
    EXPECT_EQ(range.begin % kPage, 0);
    EXPECT_EQ(range.end % kPage, 0);
    EXPECT_EQ(given.missing(range), std::vector{range}) << "no page is taken twice";
    if (given.bytes() + range.bytes() > all) return false;
    given.add(range);
    return true;
  }
  void give_back(AddressRange range) override {
    EXPECT_EQ(given.present(range), std::vector{range});
    given.remove(range);
  }
  PageSet given;
  std::int64_t all = std::int64_t{1} << 50;
};

TEST(BlockPool, ReservesThePagesOfABlock) {
  BlockPool pool;
  const auto a = pool.allocate(100);
  EXPECT_EQ(pool.allocated(), 128);
  EXPECT_EQ(pool.reserved(), kPage);
  pool.allocate(kPage);
  EXPECT_EQ(pool.reserved(), 2 * kPage) << "the first page has room left";
  pool.free(*a);
  EXPECT_EQ(pool.reserved(), 2 * kPage);
  EXPECT_EQ(pool.allocated(), kPage);
}

TEST(BlockPool, FreedBlocksAreKeptAndReused) {
  BlockPool pool;
  const auto first = pool.allocate(10 * kMebibyte);
  pool.free(*first);
  EXPECT_EQ(pool.reserved(), 10 * kMebibyte);
  EXPECT_EQ(pool.allocate(9 * kMebibyte), first);
  EXPECT_EQ(pool.peak_reserved(), 10 * kMebibyte);
}

TEST(BlockPool, SmallBlocksAreSeparateFromLargeOnes) {
  BlockPool pool;
  const auto a = pool.allocate(kMebibyte), small = pool.allocate(BlockPool::kSmall),
             b = pool.allocate(kMebibyte);
  EXPECT_EQ(*b, *a + kMebibyte);
  EXPECT_LT(*small, *a);
}

TEST(BlockPool, EmptyCacheReturnsOnlyPagesOfUnusedBlocks) {
  CountedPages pages;
  BlockPool pool(std::int64_t{1} << 40, &pages);
  const auto bottom = pool.allocate(kMebibyte), a = pool.allocate(kMebibyte + 64),
             middle = pool.allocate(kMebibyte), b = pool.allocate(kMebibyte + 64),
             end = pool.allocate(kMebibyte);
  for (const auto& unused : {bottom, middle, end}) pool.free(*unused);
  EXPECT_EQ(pages.given.bytes(), pool.reserved());
  pool.empty_cache();
  EXPECT_EQ(pages.given.bytes(), pool.reserved());
  EXPECT_EQ(pool.reserved(), 2 * kMebibyte + 2 * kPage);
  for (const auto& used : {a, b})
    EXPECT_THAT(pages.given.missing({*used, *used + kMebibyte + 64}), testing::IsEmpty())
        << "blocks in use stay";
  EXPECT_EQ(pool.allocate(kMebibyte), bottom) << "the addresses are reused";
  EXPECT_EQ(pages.given.bytes(), pool.reserved());
}

TEST(BlockPool, UnusedBlocksAreReturnedToStayWithinTheLimit) {
  CountedPages pages;
  BlockPool pool(std::int64_t{1} << 40, &pages);
  pool.set_limit(10 * kMebibyte);
  const auto hole = pool.allocate(4 * kMebibyte);
  pool.allocate(4 * kMebibyte);
  pool.free(*hole);
  EXPECT_EQ(pool.retries(), 0);
  EXPECT_TRUE(pool.allocate(6 * kMebibyte)) << "the hole's pages are reused elsewhere";
  EXPECT_EQ(pool.retries(), 1);
  EXPECT_EQ(pool.reserved(), 10 * kMebibyte);
  EXPECT_EQ(pages.given.bytes(), 10 * kMebibyte);
  const std::int64_t allocated = pool.allocated();
  EXPECT_EQ(pool.allocate(kMebibyte), std::nullopt);
  EXPECT_EQ(pool.wanted_limit(), 11 * kMebibyte);
  EXPECT_EQ(pool.allocated(), allocated);
  pool.set_limit(pool.wanted_limit());
  EXPECT_TRUE(pool.allocate(kMebibyte));
}

TEST(BlockPool, LimitBelowTheReservedBytesReturnsPagesImmediately) {
  BlockPool pool;
  const auto unused = pool.allocate(8 * kMebibyte), used = pool.allocate(2 * kMebibyte);
  pool.free(*unused);
  pool.set_limit(kMebibyte);
  EXPECT_EQ(pool.reserved(), 2 * kMebibyte) << "blocks in use stay";
  EXPECT_EQ(pool.allocate(kMebibyte), std::nullopt);
  pool.free(*used);
  EXPECT_TRUE(pool.allocate(kMebibyte));
}

TEST(BlockPool, SystemOutOfMemoryAlsoActsAsALimit) {
  CountedPages pages;
  pages.all = 8 * kMebibyte;
  BlockPool pool(std::int64_t{1} << 40, &pages);
  const auto hole = pool.allocate(4 * kMebibyte);
  pool.allocate(4 * kMebibyte);
  EXPECT_EQ(pool.allocate(2 * kMebibyte), std::nullopt);
  pool.free(*hole);
  EXPECT_TRUE(pool.allocate(4 * kMebibyte));
  EXPECT_EQ(pages.given.bytes(), pool.reserved());
}

TEST(BlockPool, ExhaustedAddressSpaceRefusesBlocks) {
  BlockPool pool(64 * kMebibyte);
  pool.set_limit(kMebibyte);
  EXPECT_EQ(pool.allocate(64 * kMebibyte), std::nullopt);
  EXPECT_LE(pool.wanted_limit(), kMebibyte) << "a larger limit would not help";
  pool.set_limit(std::nullopt);
  EXPECT_TRUE(pool.allocate(40 * kMebibyte));
}

TEST(BlockPool, AllocationsOutsideAStepMoveNoneOfItsBlocks) {
  std::mt19937 random(3), other(4);
  BlockPool alone, disturbed;
  std::vector<std::int64_t> blocks, beside;
  for (int i = 0; i < 1000; ++i) {
    if (other() % 2 == 0)
      beside.push_back(*disturbed.allocate(1 + other() % kMebibyte, Lane::kBeside));
    else if (!beside.empty()) {
      disturbed.free(beside.back());
      beside.pop_back();
    }
    if (blocks.empty() || random() % 2 == 0) {
      const std::int64_t bytes = 1 + random() % kMebibyte;
      blocks.push_back(*alone.allocate(bytes));
      ASSERT_EQ(disturbed.allocate(bytes), blocks.back());
    } else {
      const std::size_t at = random() % blocks.size();
      for (BlockPool* const pool : {&alone, &disturbed}) pool->free(blocks[at]);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_EQ(alone.reserved(), disturbed.reserved(Lane::kStep));
  }
  EXPECT_GT(disturbed.reserved(Lane::kBeside), 0);
  EXPECT_EQ(disturbed.reserved(),
            disturbed.reserved(Lane::kStep) + disturbed.reserved(Lane::kBeside));
}

TEST(BlockPool, BlocksStayDisjointAndKeepTheirPagesInAnySequence) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    std::mt19937 random(seed);
    CountedPages pages;
    BlockPool pool(std::int64_t{1} << 40, &pages), unlimited(std::int64_t{1} << 40);
    pool.set_limit(24 * kMebibyte);
    std::map<std::int64_t, std::int64_t> used;  // bytes by start address
    std::int64_t refused = 0;
    for (int i = 0; i < 3000; ++i) {
      const auto action = random() % 64;
      if (action == 0) {
        pool.empty_cache();
      } else if (action < 36 || used.empty()) {
        const std::int64_t bytes = 1 + random() % (random() % 4 == 0 ? 3 * kMebibyte : 20'000);
        const auto address = pool.allocate(bytes);
        refused += !address;
        if (!address) continue;
        ASSERT_EQ(unlimited.allocate(bytes), address) << "a limit moves no blocks";
        ASSERT_EQ(*address % BlockPool::kGrain, 0);
        const auto after = used.lower_bound(*address);
        if (after != used.end()) ASSERT_LE(*address + bytes, after->first);
        if (after != used.begin())
          ASSERT_LE(std::prev(after)->first + std::prev(after)->second, *address);
        used.emplace(*address, bytes);
        ASSERT_THAT(pages.given.missing({*address, *address + bytes}), testing::IsEmpty());
      } else {
        const auto block =
            std::next(used.begin(), static_cast<std::ptrdiff_t>(random() % used.size()));
        pool.free(block->first);
        unlimited.free(block->first);
        used.erase(block);
      }
      ASSERT_EQ(pages.given.bytes(), pool.reserved());
      ASSERT_LE(pool.reserved(), 24 * kMebibyte);
      ASSERT_LE(pool.allocated(), pool.reserved());
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(pool.retries(), 0);
    for (const auto& [begin, bytes] : used) pool.free(begin);
    pool.empty_cache();
    EXPECT_EQ(pool.allocated(), 0);
    EXPECT_EQ(pool.reserved(), 0);
    EXPECT_EQ(pages.given.bytes(), 0);
  }
}

}  // namespace
}  // namespace stages
