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
  EXPECT_THAT(text,
              HasSubstr("| trials | 1 failed, 3 finished |\n| time of all trials | 0:04:00 |\n"
                        "| best by validation/accuracy | trial 1 (train.lr=0.1 seed=2): "
                        "0.7500 |\n"));
  EXPECT_THAT(text, HasSubstr("| 1 | finished | 0.7500 | 0.1 | 2 | 0:01:00 |\n"
                              "| 2 | finished | 0.5000 | 0.2 | 1 | 0:01:00 |\n"
                              "| 0 | finished | 0.2500 | 0.1 | 1 | 0:01:00 |\n"
                              "| 3 | failed | – | 0.2 | 2 | 0:01:00 |\n"));
  EXPECT_THAT(text, HasSubstr("## Means over seeds\n"));
  EXPECT_THAT(text, HasSubstr("## Effect of each setting\n"));
  EXPECT_THAT(text, HasSubstr("| 3 | failed | out of memory |\n"));
  EXPECT_THAT(text, Not(HasSubstr("too optimistic")));
}

TEST(SweepDocument, SmallestLossIsBest) {
  EXPECT_THAT(report("validation/loss", {"0.25", "0.75", "0.5"}),
              HasSubstr("| 0 | finished | 0.2500 | 0.1 | 1 | 0:01:00 |\n| 2 |"));
}

TEST(SweepDocument, WarnsIfTestDataDecide) {
  EXPECT_THAT(report("evaluate/top1", {"0.25", "0.75", "0.5"}),
              HasSubstr("compared on test data, so evaluate/top1 of the best trial is too "
                        "optimistic"));
}

TEST(SweepDocument, WithoutResultsListsTheTrials) {
  EXPECT_THAT(report("validation/loss", {}), HasSubstr("| 0 | finished | 0.1 | 1 | 0:01:00 |\n"));
}

}  // namespace
}  // namespace runner
