#include "runner/parent/report/main_metric.h"

#include <vector>

#include <gtest/gtest.h>

namespace runner {
namespace {

std::string main_of(std::vector<std::string> names) { return main_metric(names); }

TEST(MainMetric, PrefersEvaluationThenValidationThenTraining) {
  EXPECT_EQ(main_of({"evaluate/r", "evaluate/top1", "train/x", "validation/accuracy"}),
            "evaluate/top1");
  EXPECT_EQ(main_of({"train/x", "validation/accuracy", "validation/loss"}), "validation/accuracy");
  EXPECT_EQ(main_of({"memory/peak", "train/loss", "validation/mean_rank"}), "validation/mean_rank");
  EXPECT_EQ(main_of({"memory/peak", "train/loss"}), "train/loss");
  EXPECT_EQ(main_of({"memory/peak", "speed"}), "memory/peak");
  EXPECT_EQ(main_of({}), "");
}

TEST(MainMetric, NamesWithoutANodeTakePrecedence) {
  EXPECT_EQ(main_of({"a:evaluate/top1", "evaluate/top1"}), "evaluate/top1");
  EXPECT_EQ(main_of({"a:evaluate/top1", "b:evaluate/top1", "train/loss"}), "a:evaluate/top1");
  EXPECT_EQ(main_of({"a:loss", "b:train/x"}), "b:train/x");
  EXPECT_EQ(main_of({"evaluate/balanced_accuracy", "train/accuracy"}), "evaluate/balanced_accuracy")
      << "its name merely has the same ending";
}

TEST(MainMetric, RunsAreChosenByValidationIfAvailable) {
  const auto choosing = [](std::vector<std::string> names) { return choosing_metric(names); };
  EXPECT_EQ(choosing({"evaluate/top1", "validation/accuracy", "validation/loss"}),
            "validation/accuracy");
  EXPECT_EQ(choosing({"evaluate/top1", "validation/loss", "validation/x"}), "validation/loss");
  EXPECT_EQ(choosing({"evaluate/top1", "validation/x"}), "validation/x");
  EXPECT_EQ(choosing({"a:validation/loss", "b:validation/loss", "evaluate/top1"}), "evaluate/top1");
}

TEST(MainMetric, ShortNamesMatchTheEndsOfNames) {
  const std::vector<std::string> names = {"a:train/auc",        "b:train/auc", "evaluate/top1",
                                          "evaluate/log_loss",  "train/loss",  "validation/loss",
                                          "validation/accuracy"};
  using Names = std::vector<std::string>;
  EXPECT_EQ(metrics_meant("accuracy", names), Names{"evaluate/top1"});
  EXPECT_EQ(metrics_meant("log_loss", names), Names{"evaluate/log_loss"});
  EXPECT_EQ(metrics_meant("loss", names), (Names{"train/loss", "validation/loss"}));
  EXPECT_EQ(metrics_meant("validation/loss", names), Names{"validation/loss"});
  EXPECT_EQ(metrics_meant("train/auc", names), (Names{"a:train/auc", "b:train/auc"}));
  EXPECT_EQ(metrics_meant("b:train/auc", names), Names{"b:train/auc"});
  EXPECT_EQ(metrics_meant("oss", names), Names{});
}

TEST(MainMetric, SmallestLossErrorRankOrPerplexityIsBest) {
  for (const char* metric :
       {"validation/loss", "evaluate/calibration_error", "evaluate/median_rank", "perplexity",
        "validation/mae", "evaluate/baseline_rmse"})
    EXPECT_TRUE(is_smaller_better(metric)) << metric;
  EXPECT_FALSE(is_smaller_better("evaluate/top1"));
}

}  // namespace
}  // namespace runner
