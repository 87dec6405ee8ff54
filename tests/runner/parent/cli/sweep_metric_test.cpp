#include "runner/parent/cli/sweep_metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const TrialNodes kOneTraining = {{{"data", "data.image_folder"},
                                  {"train", "train.supervised"},
                                  {"evaluate", "evaluate.classification"}}};
const TrialNodes kPairs = {{{"train.0-1", "train.binary"},
                            {"train.0-2", "train.binary"},
                            {"vote", "evaluate.pairwise_ensemble"}}};

std::string meant(const std::string& wanted, const TrialNodes& trials,
                  Compared compared = Compared::kAtTheEnd) {
  const auto metric = metric_of_trials(wanted, trials, shipped_schemas(), compared);
  return metric ? *metric : metric.errors().front().message + "; " + metric.errors().front().help;
}

TEST(SweepMetric, MetricOfAnyTrialIsAccepted) {
  for (const char* name :
       {"auto", "validation/loss", "validation/accuracy", "evaluate/top1", "evaluate/top5",
        "evaluate/log_loss", "train/learning_rate/head", "memory/peak"})
    EXPECT_EQ(meant(name, kOneTraining), name);
  EXPECT_EQ(meant("accuracy", kOneTraining), "evaluate/top1");
  EXPECT_EQ(meant("mean_per_class", kOneTraining), "evaluate/mean_per_class");
  EXPECT_EQ(meant("train:validation/loss", kOneTraining), "validation/loss");
}

TEST(SweepMetric, MetricThatNoTrialHasIsRejectedWithAlternatives) {
  EXPECT_THAT(
      meant("foo", kOneTraining),
      StartsWith(
          "no trial can have the metric 'foo'; there are validation/loss, validation/accuracy, "
          "evaluate/top1, "));
  EXPECT_THAT(meant("validation/acuracy", kOneTraining),
              HasSubstr("did you mean 'validation/accuracy'?"));
  EXPECT_THAT(meant("evaluate/top1l", kOneTraining), HasSubstr("did you mean 'evaluate/top1'?"));
  EXPECT_THAT(meant("validation/auc", kOneTraining),
              StartsWith("no trial can have the metric 'validation/auc'"));
  EXPECT_THAT(meant("evaluate:validation/loss", kOneTraining), StartsWith("no trial can have"));
  EXPECT_THAT(meant("evaluate/episode_accuracy", kOneTraining), StartsWith("no trial can have"));
  EXPECT_THAT(meant("validation/loss", {{{"data", "data.image_folder"}}}),
              HasSubstr("this recipe records no metrics"));
}

TEST(SweepMetric, AmbiguousMetricNeedsItsNode) {
  EXPECT_EQ(meant("validation/auc", kPairs),
            "the metric 'validation/auc' may be train.0-1:validation/auc or "
            "train.0-2:validation/auc; write the full name of the one you mean");
  EXPECT_EQ(meant("train.0-2:validation/auc", kPairs), "train.0-2:validation/auc");
  EXPECT_EQ(meant("majority_accuracy", kPairs), "evaluate/majority_accuracy");
  EXPECT_THAT(meant("loss", kOneTraining), HasSubstr("may be train/loss or validation/loss"));
}

TEST(SweepMetric, TrialsAreComparedByTrainingMetricsWhileTheyTrain) {
  EXPECT_EQ(meant("validation/loss", kOneTraining, Compared::kWhileTraining), "validation/loss");
  EXPECT_THAT(meant("evaluate/top1", kOneTraining, Compared::kWhileTraining),
              StartsWith("no trial can have the metric 'evaluate/top1' while it trains; "));
}

TEST(SweepMetric, DefaultIsTheMonitoredMetricOfTheOnlyTrainingStage) {
  const auto training = [](const std::string& id, const std::string& monitor) {
    return Node{.id = id, .options = from_json({{"monitor", monitor}})};
  };
  Graph graph;
  graph.nodes = {Node{.id = "data", .options = from_json({{"root", "x"}})},
                 training("train", "auc")};
  EXPECT_EQ(*monitored_metric(graph), "validation/auc");
  graph.nodes.push_back(training("again", "loss"));
  EXPECT_THAT(monitored_metric(graph).errors().front().message,
              HasSubstr("each of these trials has 2 training nodes"));
  graph.nodes.resize(1);
  EXPECT_THAT(monitored_metric(graph).errors().front().message,
              HasSubstr("these trials do not train anything"));
}

}  // namespace
}  // namespace runner
