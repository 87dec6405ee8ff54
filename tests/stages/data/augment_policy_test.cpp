#include "stages/data/augment_policy.h"

#include <cmath>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/chance.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

using Kind = AugmentPolicy::Kind;

constexpr int kSize = 64, kDraws = 4000;

DrawnPolicy drawn(const AugmentPolicy& policy, std::uint64_t key) {
  Random random({key});
  return drawn_policy(policy, kSize, kSize, random);
}

/// Returns the magnitudes with which each operation was drawn.
std::map<Operation, std::multiset<double>> magnitudes_of(const AugmentPolicy& policy) {
  std::map<Operation, std::multiset<double>> found;
  for (std::uint64_t key = 0; key < kDraws; ++key) {
    for (const OperationChain& chain : drawn(policy, key).chains) {
      for (const OperationAt& step : chain.steps) found[step.operation].insert(step.magnitude);
    }
  }
  return found;
}

std::size_t different(const std::multiset<double>& magnitudes) {
  return std::set<double>(magnitudes.begin(), magnitudes.end()).size();
}

TEST(AugmentPolicy, RandAugmentUsesOneMagnitudeInBothDirections) {
  const auto found = magnitudes_of({.kind = Kind::kRandAugment, .num_ops = 3, .magnitude = 15});
  EXPECT_EQ(found.size(), 14U);
  for (const auto& [operation, magnitudes] : found) {
    const double each = 1.0 / 14;
    EXPECT_NEAR(static_cast<double>(magnitudes.size()), 3 * kDraws * each,
                count_error(3 * kDraws, each));
  }
  // The middle of 31 bins is half of the range.
  EXPECT_EQ(found.at(Operation::kRotate).count(15) + found.at(Operation::kRotate).count(-15),
            found.at(Operation::kRotate).size());
  EXPECT_GT(found.at(Operation::kRotate).count(-15), 0U);
  EXPECT_GT(found.at(Operation::kRotate).count(15), 0U);
  EXPECT_EQ(different(found.at(Operation::kPosterize)), 1U);
  EXPECT_EQ(*found.at(Operation::kPosterize).begin(), 6);
  EXPECT_EQ(*found.at(Operation::kSolarize).begin(), 127.5);
  EXPECT_FLOAT_EQ(static_cast<float>(*found.at(Operation::kTranslateX).rbegin()),
                  150.0F / 331 * kSize / 2);
}

TEST(AugmentPolicy, TrivialAugmentDrawsOneOperationOfAnyMagnitude) {
  const AugmentPolicy policy{.kind = Kind::kTrivialAugmentWide};
  for (std::uint64_t key = 0; key < 50; ++key) {
    const DrawnPolicy one = drawn(policy, key);
    ASSERT_EQ(one.chains.size(), 1U);
    EXPECT_EQ(one.chains[0].steps.size(), 1U);
  }
  const auto found = magnitudes_of(policy);
  EXPECT_EQ(found.size(), 14U);
  EXPECT_EQ(*found.at(Operation::kRotate).rbegin(), 135);
  EXPECT_EQ(*found.at(Operation::kRotate).begin(), -135);
  for (const double degrees : found.at(Operation::kRotate))
    EXPECT_EQ(std::fmod(degrees, 4.5), 0) << "one of 31 magnitudes";
  EXPECT_GT(different(found.at(Operation::kRotate)), 31U) << "in both directions";
  EXPECT_EQ(different(found.at(Operation::kPosterize)), 7U) << "2 to 8 bits";
  EXPECT_EQ(*found.at(Operation::kTranslateY).rbegin(), 32) << "works for images of any size";
}

TEST(AugmentPolicy, AutoAugmentAppliesBothOperationsOfAPairWithTheirProbabilities) {
  const AugmentPolicy policy{.kind = Kind::kAutoAugment};
  const auto found = magnitudes_of(policy);
  // Of 25 pairs, two begin with Invert with probability 0.6, and one ends with it with probability
  // 0.6.
  const double inverts = 3 * 0.6 / 25;
  EXPECT_NEAR(static_cast<double>(found.at(Operation::kInvert).size()), kDraws * inverts,
              count_error(kDraws, inverts));
  EXPECT_FALSE(found.contains(Operation::kTranslateX));
  EXPECT_EQ(different(found.at(Operation::kPosterize)), 3U) << "bins 5 to 8 keep 6, 5, 5 and 4";
}

TEST(AugmentPolicy, AugMixSharesAddUpToOne) {
  const AugmentPolicy policy{.kind = Kind::kAugMix, .mixture_width = 4};
  std::set<std::size_t> depths;
  for (std::uint64_t key = 0; key < 300; ++key) {
    const DrawnPolicy one = drawn(policy, key);
    ASSERT_EQ(one.chains.size(), 4U);
    float sum = one.share_of_image;
    for (const OperationChain& chain : one.chains) {
      sum += chain.share;
      depths.insert(chain.steps.size());
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_EQ(depths, (std::set<std::size_t>{1, 2, 3}));
  const auto all = magnitudes_of(policy);
  EXPECT_EQ(all.size(), 13U) << "all except Identity";
  EXPECT_LE(different(all.at(Operation::kRotate)), 5U) << "severity 3: 0 and two more magnitudes";
  const auto few = magnitudes_of({.kind = Kind::kAugMix, .all_ops = false});
  EXPECT_EQ(few.size(), 9U);
  EXPECT_FALSE(few.contains(Operation::kContrast));
}

TEST(AugmentPolicy, ThreeAugmentChoosesOneOfThree) {
  const auto found = magnitudes_of({.kind = Kind::kThreeAugment});
  EXPECT_EQ(found.size(), 3U);
  for (const auto& [operation, magnitudes] : found)
    EXPECT_NEAR(static_cast<double>(magnitudes.size()), kDraws / 3.0, count_error(kDraws, 1.0 / 3));
  EXPECT_GE(*found.at(Operation::kGaussianBlur).begin(), 0.1);
  EXPECT_LT(*found.at(Operation::kGaussianBlur).rbegin(), 2);
}

TEST(AugmentPolicy, MagnitudesCoverTheirRange) {
  EXPECT_EQ(magnitude_of_bin(0, 0.3F, 0, 31), 0);
  EXPECT_EQ(magnitude_of_bin(0, 0.3F, 30, 31), 0.3F);
  EXPECT_EQ(magnitude_of_bin(255, 0, 30, 31), 0);
  EXPECT_EQ(magnitude_of_bin(0, 135, 20, 31), 90);
}

TEST(AugmentPolicy, MixtureIsTheWeightedSum) {
  const Image image = picture(8, 6);
  const OperationChain inverted{{{Operation::kInvert}}, 0.25F};
  const Image mixed = with_policy(image, {{inverted, {{}, 0.25F}}, 0.5F}, Neighbors::kNearest);
  for (std::size_t i = 0; i < mixed.pixels.size(); ++i) {
    const float sum = 0.75F * image.pixels[i] + 0.25F * static_cast<float>(255 - image.pixels[i]);
    EXPECT_EQ(mixed.pixels[i], static_cast<std::uint8_t>(sum)) << "exact in float32";
  }
}

}  // namespace
}  // namespace stages
