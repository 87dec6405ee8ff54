#include "runner/shared/stage/batch_cut.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(BatchCut, WholeBatchLossIsCutUnlessInTwoPasses) {
  EXPECT_TRUE(is_cut_loss(LossCoupling::kWholeBatch, /*two_pass=*/false));
  EXPECT_FALSE(is_cut_loss(LossCoupling::kWholeBatch, /*two_pass=*/true));
  for (const LossCoupling coupling : {LossCoupling::kPerSample, LossCoupling::kPerGroup}) {
    EXPECT_FALSE(is_cut_loss(coupling, /*two_pass=*/false));
  }
}

TEST(BatchCut, LayersThatMixSamplesAreCutUnlessBetweenGroups) {
  EXPECT_TRUE(are_cut_layers(LossCoupling::kPerSample, /*mixes_samples=*/true));
  EXPECT_TRUE(are_cut_layers(LossCoupling::kWholeBatch, /*mixes_samples=*/true));
  EXPECT_FALSE(are_cut_layers(LossCoupling::kPerGroup, /*mixes_samples=*/true));
  EXPECT_FALSE(are_cut_layers(LossCoupling::kPerSample, /*mixes_samples=*/false));
}

TEST(BatchCut, LayersThatMixSamplesNeedTwoSamples) {
  EXPECT_EQ(least_samples(LossCoupling::kPerSample, /*mixes_samples=*/true), 2);
  EXPECT_EQ(least_samples(LossCoupling::kWholeBatch, /*mixes_samples=*/true), 2);
  EXPECT_EQ(least_samples(LossCoupling::kPerGroup, /*mixes_samples=*/true), 1);
  EXPECT_EQ(least_samples(LossCoupling::kWholeBatch, /*mixes_samples=*/false), 1);
}

}  // namespace
}  // namespace runner
