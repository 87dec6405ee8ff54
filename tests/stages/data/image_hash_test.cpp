#include "stages/data/image_survey.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "stages/data/image.h"
#include "stages/data/image_writer.h"
#include "stages/data/weighted_sums.h"
#include "stages/random/random.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

using HashGroups = std::vector<std::vector<std::size_t>>;

ImageHash random_hash(Random& random) {
  return {random.next(), random.next(), random.next(), random.next()};
}

ImageHash with_bits_turned(ImageHash hash, int count, Random& random) {
  std::set<std::int64_t> bits;
  while (std::ssize(bits) < count) bits.insert(random.below(256));
  for (const std::int64_t bit : bits)
    hash[static_cast<std::size_t>(bit / 64)] ^= std::uint64_t{1} << (bit % 64);
  return hash;
}

TEST(ImageHash, SetsABitWhereBrightnessIncreases) {
  Image image(170, 160);
  for (int y = 0; y < 160; ++y)
    for (int x = 0; x < 170; ++x)
      std::fill_n(image.row(y) + 3 * x, 3, static_cast<std::uint8_t>(y < 80 ? x : 170 - x));
  const ImageHash hash = image_hash(thumbnail(image));
  EXPECT_EQ(hash[0], ~std::uint64_t{0});
  EXPECT_EQ(hash[1] >> 32, 0xffffffffu);
  EXPECT_EQ(hash[3], 0u);
  EXPECT_EQ(image_hash(thumbnail(Image(40, 40))), ImageHash{});
}

const auto kAnyPair = [](std::size_t, std::size_t) { return true; };

TEST(Alike, FindsEveryPair) {
  Random random({3});
  std::vector<ImageHash> hashes;
  for (int i = 0; i < 300; ++i) hashes.push_back(random_hash(random));
  for (int i = 0; i < 300; ++i)
    hashes.push_back(with_bits_turned(hashes[static_cast<std::size_t>(i)], i % 20, random));
  for (const int most : {0, 1, 3, 8, 19}) {
    const HashGroups groups = alike(hashes, most, kAnyPair);
    std::set<std::vector<std::size_t>> found(groups.begin(), groups.end());
    for (std::size_t i = 0; i < 300; ++i)
      EXPECT_EQ(found.contains({i, i + 300}), static_cast<int>(i % 20) <= most) << i << " " << most;
    EXPECT_TRUE(std::ranges::is_sorted(groups));
  }
}

TEST(Alike, GroupsAreConnectedByPairs) {
  Random random({4});
  const ImageHash first = random_hash(random), far = random_hash(random);
  ImageHash second = first, third = first;
  second[0] ^= 0b111;
  third[0] ^= 0b111111;
  EXPECT_EQ(alike(std::vector{first, far, third, second}, 3, kAnyPair), (HashGroups{{0, 2, 3}}));
  EXPECT_EQ(alike(std::vector{first, far, third}, 3, kAnyPair), HashGroups{});
  EXPECT_EQ(alike({}, 3, kAnyPair), HashGroups{});
}

TEST(Alike, UnconfirmedPairsAreDropped) {
  const auto odd = [](std::size_t one, std::size_t other) {
    return one % 2 == 1 && other % 2 == 1;
  };
  ImageHash near{};
  near[3] = 1;
  EXPECT_EQ(alike(std::vector{ImageHash{}, near, ImageHash{}}, 3, odd), HashGroups{});
  EXPECT_EQ(alike(std::vector{ImageHash{~0u}, near, ImageHash{~0u}, ImageHash{}}, 3, odd),
            (HashGroups{{1, 3}}));
}

TEST(Alike, ThousandEqualImagesAreComparedOnce) {
  int looks = 0;
  EXPECT_EQ(alike(std::vector<ImageHash>(1000), 8, kAnyPair, [&] { ++looks; }).size(), 1u);
  EXPECT_LE(looks, 9);
}

}  // namespace
}  // namespace stages
