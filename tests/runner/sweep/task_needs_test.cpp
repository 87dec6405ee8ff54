#include "runner/sweep/task_needs.h"

#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/config/yaml_reader.h"
#include "runner/sweep/sweep_layout.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;

const nlohmann::ordered_json kAuto = {{"cores", "auto"}, {"gpus", "auto"}, {"memory", "auto"}};

/// Trials with these recipes; what their plans say is a line of shell.
class TaskNeedsTest : public testing::Test {
 protected:
  TaskNeeds needs(const nlohmann::ordered_json& settings, const std::vector<std::string>& recipes,
                  const std::string& plan = "echo '{\"result\": {\"run_peak\": {\"predicted\": 1024}}}'") {
    SweepPlan sweep{.recipe = "small", .overrides = {}, .folder = folder_.path(), .trials = {}};
    const SweepLayout layout(folder_.path());
    for (std::uint64_t number = 0; number < recipes.size(); ++number) {
      folder_.write("recipes/" + std::to_string(number) + ".yaml", recipes[number]);
      sweep.trials.push_back({.number = number, .hash = "aa", .settings = {}});
    }
    std::filesystem::remove(layout.journal());
    folder_.write("retort", "#!/bin/sh\necho \"$2\" >>" + (folder_ / "planned").string() + "\n" + plan + "\n");
    std::filesystem::permissions(folder_ / "retort", std::filesystem::perms::owner_all);
    const auto journal = SweepJournal::make(folder_.path(), sweep);
    ClusterCommands commands;
    return task_needs(settings, journal, {.program = folder_ / "retort", .talk = talk_}, commands);
  }
  TemporaryFolder folder_;
  std::ostringstream talk_;
};

TEST_F(TaskNeedsTest, WhatIsWrittenIsAskedFor) {
  const TaskNeeds asked = needs({{"cores", 3}, {"gpus", 2}, {"memory", "2GiB"}}, {"threads: 8\n"});
  EXPECT_EQ(asked.cores, 3);
  EXPECT_EQ(asked.gpus, 2);
  EXPECT_EQ(asked.memory_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(folder_.read("planned"), "");
}

TEST_F(TaskNeedsTest, LargestTrialDecides) {
  const TaskNeeds asked = needs(kAuto, {"threads: 2\ndevice: {select: cpu}\n", "threads: 6\n", "threads: 1\n"},
                                "case $2 in */1.yaml) bytes=5000;; *) bytes=3000;; esac\n"
                                "echo \"{\\\"result\\\": {\\\"run_peak\\\": {\\\"predicted\\\": $bytes}}}\"");
  EXPECT_EQ(asked.cores, 6);
  EXPECT_EQ(asked.gpus, 0);
  EXPECT_EQ(asked.memory_bytes, (std::int64_t{1} << 30) + 5000);
  EXPECT_EQ(talk_.str(), "memory of a task: 1.00 GiB, by the plans of 3 of 3 trials\n");
}

TEST_F(TaskNeedsTest, TrialOnAGpuHasOneAndTheClustersMemory) {
  const TaskNeeds asked = needs(kAuto, {"device: {select: auto}\n", "device: {select: cuda}\n"});
  EXPECT_EQ(asked.gpus, 1);
  EXPECT_EQ(asked.memory_bytes, std::nullopt);
}

TEST_F(TaskNeedsTest, OfManyTrialsEightArePlanned) {
  needs(kAuto, std::vector<std::string>(100, "threads: 1\n"));
  const std::string planned = folder_.read("planned");
  EXPECT_EQ(std::ranges::count(planned, '\n'), 8);
  EXPECT_THAT(planned, testing::StartsWith((folder_ / "recipes/0.yaml").string()));
  EXPECT_THAT(planned, HasSubstr("/99.yaml\n"));
}

TEST_F(TaskNeedsTest, WhatCannotBePlannedIsLeftToTheCluster) {
  EXPECT_EQ(needs(kAuto, {"threads: 1\n"}, "echo 'error'; exit 1").memory_bytes, std::nullopt);
  EXPECT_EQ(talk_.str(), "trial 0 cannot be planned here: the cluster decides about the memory\n");
}

TEST(CoresOfTask, AreThoseAskedForOrTheRecipesThreads) {
  const auto cores = [](const std::string& text) {
    Sources sources;
    return cores_of_task(*read_yaml(sources.add("a.yaml", text)));
  };
  EXPECT_EQ(cores("threads: 3\n"), std::nullopt) << "no cluster";
  EXPECT_EQ(cores("threads: auto\nsweep: {launcher: {kind: slurm, cores: 6}}\n"), 6);
  EXPECT_EQ(cores("threads: 3\nsweep: {launcher: {kind: slurm, cores: auto}}\n"), 3);
  EXPECT_EQ(cores("threads: auto\nsweep: {launcher: {kind: slurm, cores: auto}}\n"), 4);
}

}  // namespace
}  // namespace runner
