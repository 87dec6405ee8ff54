// End-to-end tests of a run's memory limit and memory reports.

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  Ended run(const std::string& overrides) {
    return retort(
        "run quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
        "model.num_hidden_layers=1 train.epochs=2 train.batch_size=8 train.log_every=1 "
        "run.dir=run " +
            overrides,
        folder_.path());
  }
  SharedFolder folder_;
};

TEST_F(Memory, RunSucceedsWithABudgetJustAboveItsPlannedNeed) {
  const json plan =
      json::parse(retort("plan quickstart data.root=photos data.make=null data.image_size=16 "
                         "model.patch_size=8 model.num_hidden_layers=1 train.batch_size=8 --json",
                         folder_.path())
                      .out)
          .at("result");
  const double needs = plan.at("plans").at(0).at("needed").get<double>() / (1 << 20);
  const std::string budget = std::to_string(needs + 0.01);
  const Ended ended = run("memory.budget=" + budget.substr(0, budget.find('.') + 3) + "MiB");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("% of the "));
}

TEST_F(Memory, LegacyPolicyRunsAPlanThatDoesNotFit) {
  const auto plan = [&](const std::string& more) {
    return retort(
        "plan quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
        "model.num_hidden_layers=1 train.batch_size=8 device=cpu memory.budget=2MiB "
        "memory=as_written " +
            more,
        folder_.path());
  };
  const std::string legacy = "memory.on_oom_policy=legacy memory.max_retries=3 ";
  EXPECT_EQ(plan("").exit, 1);
  const Ended planned = plan(legacy);
  EXPECT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr(" too much; it runs anyway (memory.on_oom_policy: legacy)\n"));
  const Ended ended = run("memory=as_written memory.budget=2MiB device=cpu " + legacy);
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(ended.err,
              HasSubstr(": too much, but it runs anyway (memory.on_oom_policy: legacy)\n"));
  EXPECT_THAT(ended.err, HasSubstr("train: out of memory: batch_size 4 instead of 8, restarting at "
                                   "the first epoch, retry 1\n"));
  EXPECT_THAT(ended.err, HasSubstr("train: out of memory: batch_size 2 instead of 4, restarting at "
                                   "the first epoch, retry 2\n"));
}

TEST_F(Memory, ResumedRunAcceptsAnotherBudgetIfItFits) {
  ASSERT_EQ(run("memory.budget=512MiB").exit, 0);
  const auto finished = file_text(folder_ / "run/nodes/train/finished.json");
  const Ended raised = retort("resume run memory.budget=1GiB", folder_.path());
  EXPECT_EQ(raised.exit, 0) << raised.err;
  EXPECT_EQ(file_text(folder_ / "run/nodes/train/finished.json"), finished)
      << "training is not repeated";
  const Ended lowered = retort("resume run memory.budget=256MiB", folder_.path());
  EXPECT_EQ(lowered.exit, 0) << lowered.err;
  const Ended too_low = retort("resume run memory.budget=1MiB", folder_.path());
  EXPECT_EQ(too_low.exit, 1);
  EXPECT_THAT(too_low.err,
              AllOf(HasSubstr("error[E0706]"), HasSubstr("may use 1.0 MiB (memory.budget)")));
}

TEST_F(Memory, ResumedRunKeepsItsPlanUnderALargerBudget) {
  const std::string options =
      " quickstart data.make=null data.root=many data.image_size=32 model.patch_size=8 "
      "model.num_hidden_layers=2 train.batch_size=32 memory=auto ";
  ASSERT_EQ(retort("data make image_folder --out many --classes 2 --per-class 30 --size 32 -q",
                   folder_.path())
                .exit,
            0);
  const json plan = json::parse(retort("plan" + options + "--json", folder_.path()).out)
                        .at("result")
                        .at("plans")
                        .at(0);
  double least = plan.at("needed").get<double>();
  for (const json& other : plan.at("alternatives"))
    least = std::min(least, other.at("needed").get<double>());
  const double budget = (plan.at("needed").get<double>() + 2 * least) / 3;
  const std::string text = std::to_string(static_cast<std::int64_t>(budget) >> 20) + "MiB";
  const auto step = [&] {
    return json::parse(file_text(folder_ / "run/nodes/train/plan.json")).at("step");
  };
  const Ended killed =
      run_shell("RETORT_FAULT=retort-worker/step:3:kill_both " RETORT_BINARY_DIR "/bin/retort run" +
                    options + "run.dir=run memory.budget=" + text,
                folder_.path());
  ASSERT_THAT(killed.err, HasSubstr("train: chosen: micro_batch "));
  const json chosen = step();
  ASSERT_GT(chosen.at("micro_batch"), 0);
  const Ended resumed = retort("resume run memory.budget=1GiB", folder_.path());
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("train: chosen when the run started: "));
  EXPECT_EQ(step(), chosen) << "the plan affects the result";
}

TEST_F(Memory, RerunUsesTheRecordedPlan) {
  ASSERT_EQ(run("memory=auto").exit, 0);
  const auto plan = [&](const char* run) { return folder_ / run / "nodes/train/plan.json"; };
  json recorded = json::parse(file_text(plan("run")));
  ASSERT_EQ(recorded.at("step").at("micro_batch"), 0) << "the whole batch fits";
  recorded["step"]["micro_batch"] = 4;  // as on a machine where it did not fit
  std::ofstream(plan("run")) << recorded;
  const Ended again = retort("runs rerun run run.dir=again", folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("train: chosen when the run started: "));
  EXPECT_EQ(json::parse(file_text(plan("again"))).at("step"), recorded.at("step"));
  ASSERT_EQ(retort("runs rerun run run.dir=other seed=7", folder_.path()).exit, 0);
  EXPECT_EQ(json::parse(file_text(plan("other"))).at("step").at("micro_batch"), 0)
      << "a different run has its own plan";
}

TEST_F(Memory, MetricsAndLogReportMemory) {
  const Ended ended = run("memory.budget=512MiB memory.empty_cache_every=2 -v");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  for (const char* when : {"at the start", "after epoch 1", "after epoch 2", "at the end"})
    EXPECT_THAT(ended.err, HasSubstr(std::string("memory ") + when + ": allocated 0.0"));
  EXPECT_THAT(ended.err, HasSubstr(", budget 0.500 GiB"));
  EXPECT_THAT(ended.err, HasSubstr(", cache cleared "));
  std::map<std::string, std::vector<double>> values;
  std::istringstream lines(file_text(folder_ / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json metric = json::parse(line);
    values[metric.at("name")].push_back(metric.at("value"));
  }
  EXPECT_EQ(values["memory/peak"].size(), values["train/loss"].size());
  for (std::size_t i = 0; i < values["memory/peak"].size(); ++i) {
    EXPECT_GE(values["memory/peak"][i], values["memory/allocated"][i]);
    EXPECT_GE(values["memory/reserved"][i], values["memory/allocated"][i]);
    EXPECT_LT(values["memory/reserved"][i], 512 << 20) << "the budget";
  }
  const json summary = json::parse(file_text(folder_ / "run/summary.json"));
  for (const json& node : summary.at("nodes")) {
    if (node.at("id") != "train") continue;
    const double most = *std::ranges::max_element(values["memory/peak"]);
    EXPECT_GE(node.at("peak_memory_bytes"), most);
  }
}

TEST_F(Memory, DoctorTestsEveryMechanism) {
  const Ended ended = retort("doctor memory", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.out;
  EXPECT_THAT(ended.out,
              StartsWith("PASS  PYTORCH_ALLOC_CONF        expandable_segments:True is in force\n"
                         "PASS  PYTORCH_CUDA_ALLOC_CONF   expandable_segments:True is in force\n"));
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("12 of 12 mechanisms work\n"), testing::Not(HasSubstr("FAIL"))));
  const Ended as_json = retort("doctor memory --json", folder_.path());
  EXPECT_EQ(json::parse(as_json.out).at("result").at("passed"), true);
}

}  // namespace
