#include "stages/few_shot/evaluate_episodic.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

/// Two episodes of two classes with two queries each: 4 of 4 correct with classes (0, 2), and 1 of
/// 4 with (2, 1).
EpisodeMetrics two_episodes() {
  const at::Tensor predicted = torch::tensor({0, 0, 1, 1, 1, 1, 0, 1}, at::kLong);
  const at::Tensor labels = torch::tensor({0, 0, 1, 1, 0, 0, 1, 1}, at::kLong);
  return episode_metrics(torch::one_hot(predicted, 2).to(at::kFloat), labels, {{0, 2}, {2, 1}}, 4);
}

TEST(EpisodeMetrics, MeanAndItsIntervalAreComputedOverEpisodes) {
  const EpisodeMetrics metrics = two_episodes();
  EXPECT_THAT(metrics.accuracies, testing::ElementsAre(1.0, 0.25));
  EXPECT_DOUBLE_EQ(metrics.mean, 0.625);
  EXPECT_DOUBLE_EQ(metrics.deviation, 0.375);  // the deviation of these two, not an estimate
  EXPECT_DOUBLE_EQ(metrics.half_width, 1.96 * 0.375 / std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(metrics.chance, 0.5);
  EXPECT_EQ(headline(metrics),
            "accuracy 62.50% +- 51.97% over 2 episodes (95% interval), chance 50.0%");
}

TEST(EpisodeMetrics, ClassesComeFromTheData) {
  const EpisodeMetrics metrics = two_episodes();
  EXPECT_EQ(metrics.confusion.count(0, 0), 2);
  EXPECT_EQ(metrics.confusion.count(2, 2), 2);
  EXPECT_EQ(metrics.confusion.count(2, 1), 2);
  EXPECT_EQ(metrics.confusion.count(1, 2), 1);
  EXPECT_EQ(metrics.confusion.count(1, 1), 1);
  EXPECT_DOUBLE_EQ(metrics.of_class[0].f1, 1);
  EXPECT_DOUBLE_EQ(metrics.of_class[1].precision, 1.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.of_class[1].recall, 0.5);
  // Class 3 does not occur, so the mean omits it.
  EXPECT_DOUBLE_EQ(metrics.macro_f1, (1.0 + 0.4 + 4.0 / 7) / 3);
  EXPECT_DOUBLE_EQ(metrics.mean_per_class, (1.0 + 0.5 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(metrics.interval().high, 1);
  EXPECT_NEAR(metrics.log_loss, std::log(1 + std::exp(1)) - 5.0 / 8, 1e-7);
}

TEST(EpisodeMetrics, EveryEpisodeHasALine) {
  EXPECT_EQ(episodes_csv(two_episodes(), {{0, 2}, {2, 1}}, {"ant", "bee", "cow, brown", "dog"}),
            "episode,accuracy,classes\n0,1,\"ant;cow, brown\"\n1,0.25,\"cow, brown;bee\"\n");
}

}  // namespace
}  // namespace stages
