#include "runner/parent/page/sweep_document.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A sweep over a rate and a seed; the last trial failed.
SweepPlan plan_of_sweep() {
  SweepPlan plan;
  plan.recipe = "classify";
  plan.overrides = {"train.lr=0.1,0.2", "seed=1,2"};
  for (const char* rate : {"0.1", "0.2"}) {
    for (const char* seed : {"1", "2"}) {
      Trial trial;
      trial.number = plan.trials.size();
      trial.settings = {"train.lr=" + std::string(rate), "seed=" + std::string(seed)};
      trial.state = trial.number == 3 ? TrialState::kFailed : TrialState::kFinished;
      trial.reason = trial.number == 3 ? "out of memory" : "";
      trial.seconds = 60;
      plan.trials.push_back(trial);
    }
  }
  return plan;
}

std::string report(const std::string& metric, const std::vector<std::string>& values) {
  const TemporaryFolder folder;
  for (std::size_t i = 0; i < values.size(); ++i) {
    folder.write(std::to_string(i) + "/summary.json", R"({"metrics": {"train": {")" + metric +
                                                          R"(": {"value": )" + values[i] +
                                                          R"(, "step": 4}}}})");
  }
  const SweepPlan plan = plan_of_sweep();
  return markdown(sweep_document("s", plan, read_results(folder.path(), plan)));
}

TEST(SweepDocument, ListsTheBestTrialsFirst) {
  const std::string text = report("validation/accuracy", {"0.25", "0.75", "0.5"});
  EXPECT_THAT(
      text, HasSubstr("| trials | 1 failed, 3 finished |\n| total time of all trials | 0:04:00 |\n"
                      "| best by validation/accuracy | trial 1 (train.lr=0.1 seed=2): "
                      "0.7500 |\n"));
  EXPECT_THAT(text, HasSubstr("| 1 | finished | 0.7500 | 0.1 | 2 | 0:01:00 |\n"
                              "| 2 | finished | 0.5000 | 0.2 | 1 | 0:01:00 |\n"
                              "| 0 | finished | 0.2500 | 0.1 | 1 | 0:01:00 |\n"
                              "| 3 | failed | – | 0.2 | 2 | 0:01:00 |\n"));
  EXPECT_THAT(text, HasSubstr("## Means over seeds\n"));
  EXPECT_THAT(text, Not(HasSubstr("Effect of each setting"))) << "it is the mean over seeds";
  EXPECT_THAT(text, Not(HasSubstr("**Means over seeds**"))) << "the heading already says so";
  EXPECT_THAT(text, testing::ContainsRegex("\\| train.lr=0.1 \\| 2 \\| 0.5000 \\| ± [0-9.]+ \\|"));
  EXPECT_THAT(text, HasSubstr("| 3 | failed | out of memory |\n"));
  EXPECT_THAT(text, Not(HasSubstr("too optimistic")));
}

/// A sweep over a rate, a size and a seed; all its trials have finished.
SweepResults results_of_two_keys() {
  SweepResults results;
  results.keys = {"train.lr", "train.batch_size", "seed"};
  results.objective = Objective{"validation/loss", true};
  for (int i = 0; i < 8; ++i) {
    TrialResult one;
    one.trial.number = static_cast<std::size_t>(i);
    one.trial.state = TrialState::kFinished;
    one.settings = {{"train.lr", i % 2 ? "0.1" : "0.02"},
                    {"train.batch_size", i / 2 % 2 ? "8" : "16"},
                    {"seed", std::to_string(i / 4)}};
    one.metrics = {{"validation/loss", 0.1 * i}};
    results.trials.push_back(one);
  }
  return results;
}

TEST(SweepDocument, EffectChartsOmitSeeds) {
  const Document document = sweep_document("s", plan_of_sweep(), results_of_two_keys());
  std::vector<std::string> charts;
  for (const Block& block : document.blocks)
    if (const auto* one = std::get_if<Figure>(&block)) charts.push_back(one->drawing.svg());
  ASSERT_EQ(charts.size(), 3u);
  EXPECT_THAT(charts[1], HasSubstr(">Means of validation/loss by train.lr</title>"));
  EXPECT_THAT(charts[1], HasSubstr("0.02: 0.3 of 4 trials; 0.1: 0.4 of 4 trials</desc>"));
  EXPECT_THAT(charts[2], HasSubstr(">Means of validation/loss by train.batch_size</title>"));
  EXPECT_THAT(charts[2], HasSubstr("8: 0.45 of 4 trials; 16: 0.25 of 4 trials</desc>"))
      << "numbers are sorted";
  const std::string text = markdown(document);
  EXPECT_THAT(text, HasSubstr("## Effect of each setting\n"));
  EXPECT_THAT(text, Not(HasSubstr("| seed=")));
}

TEST(SweepDocument, FoldsAreNotCompared) {
  SweepResults results = results_of_two_keys();
  results.trials[0].metrics["validation/loss"] = 9;
  results.cross_validations.push_back({.settings = "", .node = "evaluate", .count = 2});
  results.cross_validations[0].not_pooled = "a fold is missing";
  const Document document = sweep_document("s", plan_of_sweep(), results);
  const std::string text = markdown(document);
  EXPECT_THAT(text, Not(HasSubstr("best")));
  EXPECT_THAT(text, testing::ContainsRegex("\\| 0 \\| finished \\|[^\n]*\n\\| 1 \\| finished"))
      << "in order";
  EXPECT_THAT(text, HasSubstr("Nothing is pooled: a fold is missing"));
  for (const Block& block : document.blocks) {
    const auto* one = std::get_if<Figure>(&block);
    if (one) EXPECT_THAT(one->drawing.svg(), Not(HasSubstr("Parallel coordinates")));
  }
}

TEST(SweepDocument, SmallestLossIsBest) {
  EXPECT_THAT(report("validation/loss", {"0.25", "0.75", "0.5"}),
              HasSubstr("| 0 | finished | 0.2500 | 0.1 | 1 | 0:01:00 |\n| 2 |"));
}

TEST(SweepDocument, WarnsIfTrialsAreComparedOnTestData) {
  EXPECT_THAT(report("evaluate/top1", {"0.25", "0.75", "0.5"}),
              HasSubstr("compared on test data, so evaluate/top1 of the best trial is too "
                        "optimistic"));
}

TEST(SweepDocument, ListsTheTrialsIfThereAreNoResults) {
  EXPECT_THAT(report("validation/loss", {}), HasSubstr("| 0 | finished | 0.1 | 1 | 0:01:00 |\n"));
}

}  // namespace
}  // namespace runner
