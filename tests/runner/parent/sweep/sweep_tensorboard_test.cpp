#include "runner/parent/sweep/sweep_tensorboard.h"

#include <gmock/gmock.h>

#include "tests/support/event_file_reader.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

/// A sweep of two finished trials; the second has no metrics.
class SweepTensorBoard : public testing::Test {
 protected:
  SweepTensorBoard() {
    folder_.write("sweep/0/summary.json",
                  R"({"started": "2026-01-31T13:00:00+0100", "status": "finished", "metrics":)"
                  R"( {"evaluate": {"evaluate/top1": {"value": 0.5, "step": 4}},)"
                  R"( "train": {"train/loss": {"value": 2, "step": 4},)"
                  R"( "validation/loss": {"value": 1, "step": 4}}}})");
    folder_.write("sweep/0/metrics.jsonl",
                  R"({"node": "train", "name": "train/loss", "value": 2, "step": 4, "time": 1})"
                  "\n");
    std::filesystem::create_directories(folder_ / "sweep/recipes");
    SweepJournal::make(folder_ / "sweep", plan());
  }
  static SweepPlan plan() {
    SweepPlan plan{.recipe = "classify", .overrides = {}, .folder = {}, .trials = {}};
    for (const std::uint64_t number : {0, 1})
      plan.trials.push_back({.number = number,
                             .hash = "a",
                             .settings = {"data.root=photos", "+seed=" + std::to_string(number)},
                             .state = TrialState::kFinished});
    return plan;
  }
  TemporaryFolder folder_;
};

TEST_F(SweepTensorBoard, TrialHasItsSettings) {
  EXPECT_THAT(hparams_of_trial(folder_ / "sweep/1"),
              ElementsAre(Pair("data.root", "photos"), Pair("seed", "1")));
  EXPECT_THAT(hparams_of_trial(folder_ / "sweep/7"), IsEmpty());
  EXPECT_THAT(hparams_of_trial(folder_ / "elsewhere"), IsEmpty());
}

TEST_F(SweepTensorBoard, ExperimentContainsSweptOptionsAndMetrics) {
  const HparamsExperiment experiment =
      experiment_of(folder_ / "sweep", plan(), read_results(folder_ / "sweep", plan()));
  EXPECT_EQ(experiment.name, "classify");
  EXPECT_THAT(experiment.options, ElementsAre(Pair("seed", ElementsAre("0", "1"))));
  EXPECT_THAT(experiment.metrics,
              ElementsAre(Pair("train", "validation/loss"), Pair("evaluate", "evaluate/top1")));
}

TEST_F(SweepTensorBoard, EachTrialWithMetricsHasAFolder) {
  std::filesystem::create_directory(folder_ / "out");
  const auto files = write_sweep_tensorboard(folder_ / "sweep", plan(), folder_ / "out");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_THAT(files[0], testing::StartsWith("0/events.out.tfevents.1769860800.retort"));
  EXPECT_THAT(files[1], testing::StartsWith("0/train/"));
  EXPECT_TRUE(summaries_in(folder_ / "out" / files[2]).contains("_hparams_/experiment"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/1"));
}

TEST_F(SweepTensorBoard, SweepFolderHasTheExperimentOnlyIfTrialsHaveFiles) {
  const SweepResults results = read_results(folder_ / "sweep", plan());
  write_experiment(folder_ / "sweep", plan(), results);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "sweep/tensorboard"));
  std::filesystem::create_directory(folder_ / "sweep/0/tensorboard");
  write_experiment(folder_ / "sweep", plan(), results);
  write_experiment(folder_ / "sweep", plan(), results);
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "sweep/tensorboard"))
    count += summaries_in(entry.path()).contains("_hparams_/experiment") ? 1 : 0;
  EXPECT_EQ(count, 1u) << "it replaces the earlier one";
}

}  // namespace
}  // namespace runner
