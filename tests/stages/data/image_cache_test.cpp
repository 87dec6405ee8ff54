#include "stages/data/image.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

constexpr std::int64_t kOne = 3 * 8 * 8 + ImageCache::kOverhead;

KeptImage kept() { return {std::make_shared<const Image>(8, 8), 8, 8}; }

TEST(ImageCacheTest, KeepsWhatFitsAndEvictsNothing) {
  ImageCache cache(2 * kOne);
  for (const std::uint64_t key : {1, 2, 3}) cache.put(key, kept());
  EXPECT_TRUE(cache.find(1));
  EXPECT_TRUE(cache.find(2));
  EXPECT_FALSE(cache.find(3));
}

TEST(ImageCacheTest, LoweringTheLimitEvictsTheExcess) {
  ImageCache cache(3 * kOne);
  for (const std::uint64_t key : {1, 2, 3}) cache.put(key, kept());
  cache.set_limit(kOne);
  EXPECT_EQ(cache.find(1).has_value() + cache.find(2).has_value() + cache.find(3).has_value(), 1);
  cache.put(4, kept());
  EXPECT_FALSE(cache.find(4));
}

TEST(ImageCacheTest, KeepsNothingUntilItsLimitIsSet) {
  ImageCache cache(0, kOne);
  cache.put(1, kept());
  EXPECT_FALSE(cache.find(1));
  cache.set_limit(kOne);
  cache.put(1, kept());
  EXPECT_TRUE(cache.find(1));
}

}  // namespace
}  // namespace stages
