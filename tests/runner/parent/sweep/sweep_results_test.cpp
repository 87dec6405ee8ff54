#include "runner/parent/sweep/sweep_results.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SweepResultsTest : public testing::Test {
 protected:
  /// Adds a finished trial and the summary of its run.
  void add(const std::string& seed, const std::string& rate, double accuracy, double loss) {
    const std::string number = std::to_string(trials_.size());
    folder_.write(
        number + "/summary.json",
        nlohmann::json{{"metrics",
                        {{"evaluate", {{"evaluate/top1", {{"value", accuracy}, {"step", 4}}}}},
                         {"train", {{"train/loss", {{"value", loss}, {"step", 4}}}}}}}}
            .dump());
    trials_.push_back({.number = trials_.size(),
                       .hash = std::string(64, 'a'),
                       .settings = {"data.root=photos", "seed=" + seed, "++train.rate=" + rate},
                       .state = TrialState::kFinished,
                       .attempts = 1,
                       .seconds = 61});
  }
  SweepResults results(const std::string& metric = "auto") const {
    return read_results(
        folder_.path(),
        {.recipe = {}, .overrides = {}, .folder = {}, .trials = trials_, .asha = asha_}, metric);
  }

  TemporaryFolder folder_;
  std::vector<Trial> trials_;
  std::optional<AshaOptions> asha_;
};

TEST_F(SweepResultsTest, LastRungOfAStoppedTrialCounts) {
  add("1", "0.1", 0.5, 2);
  add("2", "0.1", 0.9, 1);
  asha_ = {.metric = "validation/loss", .last = {}};
  trials_[1].state = TrialState::kStopped;
  trials_[1].rungs = {3, 2.5};
  EXPECT_EQ(results().trials[1].metrics, (std::map<std::string, double>{{"validation/loss", 2.5}}));
  EXPECT_EQ(results("train/loss").best()->trial.number, 0u);
}

TEST_F(SweepResultsTest, TrialsAreComparedByAccuracy) {
  add("1", "0.1", 0.5, 2);
  add("1", "0.2", 0.75, 1);
  add("2", "0.1", 0.75, 3);
  add("2", "0.2", 0.25, 4);
  const SweepResults all = results();
  EXPECT_THAT(all.keys, ElementsAre("seed", "train.rate"))
      << "keys with the same value in all trials are omitted";
  EXPECT_THAT(all.metrics, ElementsAre("evaluate/top1", "train/loss"));
  EXPECT_EQ(all.objective->metric, "evaluate/top1");
  EXPECT_EQ(all.best()->trial.number, 1u) << "the first of equals";
  EXPECT_EQ(results("train/loss").best()->trial.number, 1u);
  EXPECT_TRUE(results("train/loss").objective->is_smaller_better);
  EXPECT_EQ(results("nothing").best(), nullptr);
}

TEST_F(SweepResultsTest, SizesAreShownIfTheyDiffer) {
  const auto sized = [&](std::size_t trial, double trained, std::int64_t needed) {
    const std::string number = std::to_string(trial);
    folder_.write(
        number + "/summary.json",
        nlohmann::json{
            {"metrics",
             {{"evaluate", {{"evaluate/top1", {{"value", 0.5}, {"step", 4}}}}},
              {"train", {{"train/trained_parameters", {{"value", trained}, {"step", 4}}}}}}}}
            .dump());
    folder_.write(number + "/nodes/train/plan.json", nlohmann::json{{"needed", needed}}.dump());
    folder_.write(number + "/nodes/evaluate/plan.json", nlohmann::json{{"needed", 1024}}.dump());
  };
  add("1", "0.1", 0, 0);
  add("1", "0.2", 0, 0);
  sized(0, 1536, 5 << 20);
  sized(1, 1536, 5 << 20);
  EXPECT_THAT(results_text(results()), testing::Not(HasSubstr("trained parameters")));
  sized(1, 3072, 7 << 20);
  EXPECT_THAT(results_text(results()), HasSubstr("trained parameters  planned"));
  EXPECT_THAT(results_text(results()), testing::ContainsRegex("0.5000 +0.2 +3072 +7.0 MiB"));
  EXPECT_EQ(to_json(results())["trials"][1]["planned_bytes"], 7 << 20);
}

TEST_F(SweepResultsTest, MonitoredMetricIsCompared) {
  const auto validated = [&](std::size_t trial, const std::string& monitor, double top1,
                             double loss, double accuracy) {
    folder_.write(
        std::to_string(trial) + "/summary.json",
        nlohmann::json{
            {"metrics",
             {{"evaluate", {{"evaluate/top1", {{"value", top1}, {"step", 4}}}}},
              {"train",
               {{"validation/loss", {{"value", 9}}}, {"validation/accuracy", {{"value", 0}}}}}}},
            {"kept",
             {{"train",
               {{"kind", "train.supervised"},
                {"monitor", monitor},
                {"step", 4},
                {"metrics", {{"validation/loss", loss}, {"validation/accuracy", accuracy}}}}}}}}
            .dump());
  };
  for (const char* seed : {"1", "2", "3"}) add(seed, "0.1", 0, 0);
  validated(0, "validation/loss", 0.9, 3, 0.5);
  validated(1, "validation/loss", 0.1, 1, 0.25);
  validated(2, "validation/accuracy", 0.2, 2, 0.75);
  EXPECT_EQ(results().objective->metric, "validation/loss") << "which most of them monitor";
  EXPECT_EQ(results().best()->trial.number, 1u)
      << "the validation result of the kept weights decides, not the test result";
  EXPECT_THAT(results_text(results()),
              HasSubstr("\nbest: trial 1, validation/loss 1.0000\n\nover seeds"));
  validated(1, "validation/accuracy", 0.1, 1, 0.25);
  EXPECT_EQ(results().best()->trial.number, 2u);
  EXPECT_EQ(to_json(results())["objective"]["of_test_data"], false);
  EXPECT_EQ(results("evaluate/top1").best()->trial.number, 0u);
  EXPECT_THAT(results_text(results("evaluate/top1")),
              HasSubstr("\nchosen based on test data: evaluate/top1 is no longer a fair"));
  EXPECT_EQ(to_json(results("evaluate/top1"))["objective"]["of_test_data"], true);
}

TEST_F(SweepResultsTest, MeansOverSeedsHaveStudentIntervals) {
  for (const double accuracy : {0.1, 0.2, 0.3})
    add(std::to_string(trials_.size()), "0.1", accuracy, 1);
  add("0", "0.2", 0.9, 1);
  const std::vector<TrialMean> means = results().over_seeds();
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0].what, "train.rate=0.1");
  EXPECT_DOUBLE_EQ(means[0].mean, 0.2);
  EXPECT_NEAR(*means[0].half_interval, 4.303 * 0.1 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(means[1].trials, 1u);
  EXPECT_FALSE(means[1].half_interval);
}

TEST_F(SweepResultsTest, MeansIncludeOnlyFinishedTrials) {
  for (const double accuracy : {0.1, 0.2, 0.9, 0.9, 0.9})
    add(std::to_string(trials_.size()), "0.1", accuracy, 1);
  add("0", "0.2", 0.3, 1);
  trials_[2].state =
      TrialState::kInterrupted;  // validated once; its result could still have changed
  trials_[3].state = TrialState::kFailed;
  trials_[4].state = TrialState::kStopped;
  const std::vector<TrialMean> means = results().over_seeds();
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0].trials, 2u);
  EXPECT_DOUBLE_EQ(means[0].mean, 0.15);
  ASSERT_EQ(results().effects().size(), 4u);
  EXPECT_EQ(results().effects()[2].what, "train.rate=0.1");
  EXPECT_DOUBLE_EQ(results().effects()[2].mean, 0.15);
}

TEST_F(SweepResultsTest, EffectOfAKeyIsTheMeanOverTheOtherKeys) {
  add("1", "0.1", 0.5, 2);
  add("1", "0.2", 0.7, 1);
  add("2", "0.1", 0.1, 3);
  const std::vector<TrialMean> effects = results().effects();
  std::vector<std::pair<std::string, double>> means;
  for (const TrialMean& one : effects) means.emplace_back(one.what, one.mean);
  EXPECT_THAT(means, ElementsAre(testing::Pair("seed=1", testing::DoubleEq(0.6)),
                                 testing::Pair("seed=2", 0.1),
                                 testing::Pair("train.rate=0.1", testing::DoubleEq(0.3)),
                                 testing::Pair("train.rate=0.2", 0.7)));
}

TEST_F(SweepResultsTest, IsShownAsATable) {
  add("1", "0.1", 0.5, 2);
  add("2", "0.1", 0.75, 1);
  trials_[0].state = TrialState::kFailed;
  trials_.push_back({.number = 2, .settings = {"data.root=photos", "seed=3", "++train.rate=0.1"}});
  EXPECT_EQ(results_text(results()),
            "trial  state     evaluate/top1  seed     time\n"
            "    0  failed           0.5000     1  0:01:01\n"
            "    1  finished         0.7500     2  0:01:01\n"
            "    2  waiting               –     3        –\n"
            "\n"
            "best: trial 1, evaluate/top1 0.7500\n"
            "no trial has been validated, so the choice is based on test data: evaluate/top1 is no "
            "longer a fair estimate for the best trial\n"
            "\n"
            "over seeds  trials  mean evaluate/top1  95%\n"
            "all              1              0.7500    –\n");
  EXPECT_EQ(results_csv(results()),
            "trial,state,attempts,seconds,seed,evaluate/top1,train/loss\n"
            "0,failed,1,61,1,0.5,2\n"
            "1,finished,1,61,2,0.75,1\n"
            "2,waiting,0,0,3,,\n");
}

TEST_F(SweepResultsTest, RunsWithoutMetricsHaveNoBest) {
  trials_.push_back({.number = 0, .settings = {"~memory"}});
  const SweepResults none = results();
  EXPECT_FALSE(none.objective);
  EXPECT_EQ(none.best(), nullptr);
  EXPECT_EQ(to_json(none)["objective"], nullptr);
  EXPECT_EQ(results_text(none), "trial  state    memory  time\n    0  waiting  ~          –\n");
}

TEST_F(SweepResultsTest, MetricsOfTwoNodesIncludeTheNodeName) {
  folder_.write(
      "0/summary.json",
      R"({"metrics": {"a": {"loss": {"value": 1.5, "step": 1}}, "b": {"loss": {"value": "nan", "step": 1}}}})");
  trials_.push_back({.number = 0, .state = TrialState::kFinished});
  const SweepResults all = results("b:loss");
  EXPECT_THAT(all.metrics, ElementsAre("a:loss", "b:loss"));
  EXPECT_EQ(all.best(), nullptr) << "NaN is not the best of anything";
  EXPECT_EQ(to_json(all)["trials"][0]["metrics"]["b:loss"], "nan");
}

}  // namespace
}  // namespace runner
