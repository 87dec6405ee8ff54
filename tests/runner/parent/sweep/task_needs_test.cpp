#include "runner/parent/sweep/task_needs.h"

#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;

const nlohmann::ordered_json kAuto = {{"cores", "auto"}, {"gpus", "auto"}, {"memory", "auto"}};

/// Sweeps of some trials; a shell command prints their plans.
class TaskNeedsTest : public testing::Test {
 protected:
  TaskNeeds needs(
      const nlohmann::ordered_json& settings, std::uint64_t trials,
      const std::string& plan = "echo '{\"result\": {\"run_peak\": {\"needed\": 1024}}}'") {
    SweepPlan sweep{.recipe = "small", .overrides = {}, .folder = folder_.path(), .trials = {}};
    std::filesystem::create_directories(SweepLayout(folder_.path()).recipes());
    for (std::uint64_t number = 0; number < trials; ++number)
      sweep.trials.push_back({.number = number, .hash = "aa", .settings = {}});
    folder_.write("retort", "#!/bin/sh\necho \"$2\" >>" + (folder_ / "planned").string() + "\n" +
                                plan + "\n");
    std::filesystem::permissions(folder_ / "retort", std::filesystem::perms::owner_all);
    const auto journal = SweepJournal::make(folder_.path(), sweep);
    ClusterCommands commands;
    return task_needs(settings, journal, {.program = folder_ / "retort", .err = err_}, commands);
  }
  TemporaryFolder folder_;
  std::ostringstream err_;
};

TEST_F(TaskNeedsTest, ExplicitNeedsAreRequested) {
  const TaskNeeds asked = needs({{"cores", 3}, {"gpus", 2}, {"memory", "2GiB"}}, 1);
  EXPECT_EQ(asked.cores, 3);
  EXPECT_EQ(asked.gpus, 2);
  EXPECT_EQ(asked.memory_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(folder_.read("planned"), "");
}

TEST_F(TaskNeedsTest, LargestPlanDecides) {
  const TaskNeeds asked =
      needs(kAuto, 3,
            "case $2 in */1.yaml) bytes=5000;; *) bytes=3000;; esac\n"
            "echo \"{\\\"result\\\": {\\\"run_peak\\\": {\\\"needed\\\": $bytes}}}\"");
  EXPECT_EQ(asked.memory_bytes, (std::int64_t{1} << 30) + 5000);
  EXPECT_EQ(err_.str(), "memory of a task: 1.00 GiB, from the plans of 3 of 3 trials\n");
}

TEST_F(TaskNeedsTest, RanksOfATrialShareItsMachines) {
  TaskNeeds asked =
      needs({{"cores", "auto"}, {"gpus", 0}, {"memory", "auto"}, {"ranks_per_node", 6}}, 1);
  EXPECT_EQ(asked.nodes, 1);
  EXPECT_EQ(asked.ranks_on_node, 6);
  EXPECT_EQ(asked.memory_bytes, 6 * ((std::int64_t{1} << 30) + 1024)) << "each has its own";
  asked = needs(
      {{"cores", 4}, {"gpus", 0}, {"memory", "auto"}, {"nodes", 3}, {"ranks_per_node", 2}}, 1);
  EXPECT_EQ(asked.nodes, 3);
  EXPECT_EQ(asked.ranks_on_node, 2);
  EXPECT_EQ(asked.memory_bytes, 2 * ((std::int64_t{1} << 30) + 1024)) << "on one machine";
}

TEST_F(TaskNeedsTest, TrialOnAGpuGetsTheClustersMemory) {
  EXPECT_EQ(needs({{"cores", 1}, {"gpus", 1}, {"memory", "auto"}}, 1).memory_bytes, std::nullopt);
  EXPECT_EQ(folder_.read("planned"), "");
  EXPECT_EQ(err_.str(), "memory of a task: the cluster's default, since its trials run on a GPU\n");
}

TEST_F(TaskNeedsTest, AtMostEightTrialsArePlanned) {
  needs(kAuto, 100);
  const std::string planned = folder_.read("planned");
  EXPECT_EQ(std::ranges::count(planned, '\n'), 8);
  EXPECT_THAT(planned, testing::StartsWith((folder_ / "recipes/0.yaml").string()));
  EXPECT_THAT(planned, HasSubstr("/99.yaml\n"));
}

TEST_F(TaskNeedsTest, TrialsThatCannotBePlannedAreLeftToTheCluster) {
  EXPECT_EQ(needs(kAuto, 1, "echo 'error'; exit 1").memory_bytes, std::nullopt);
  EXPECT_EQ(err_.str(),
            "trial 0 cannot be planned here, so tasks get the cluster's default memory\n");
}

Value recipe(const std::string& text) {
  Sources sources;
  return *read_yaml(sources.add("a.yaml", text));
}

TEST(CoresOfTask, ComeFromTheLauncherOrTheRecipesThreads) {
  EXPECT_EQ(cores_of_task(recipe("threads: 3\n")), std::nullopt) << "no cluster";
  EXPECT_EQ(cores_of_task(recipe("threads: auto\nsweep: {launcher: {kind: slurm, cores: 6}}\n")),
            6);
  EXPECT_EQ(cores_of_task(recipe("threads: 3\nsweep: {launcher: {kind: slurm, cores: auto}}\n")),
            3);
  EXPECT_EQ(cores_of_task(recipe("threads: auto\nsweep: {launcher: {kind: slurm, cores: auto}}\n")),
            4);
  EXPECT_EQ(cores_of_task(recipe("threads: 3\ndevice: {count: 4}\nsweep: {launcher: {kind: slurm, "
                                 "cores: auto, nodes: 2}}\n")),
            6)
      << "two ranks on each machine";
}

TEST(UndividedRanks, EveryMachineNeedsTheSameNumberOfRanks) {
  const Value one = recipe("device: {count: 1}\n"), four = recipe("device: {count: 4}\n"),
              six = recipe("device: {count: 6}\n"), none = recipe("threads: 1\n");
  const auto found = [](const std::string& nodes, const std::vector<const Value*>& recipes) {
    return undivided_ranks(recipe("nodes: " + nodes + "\n"), recipes);
  };
  EXPECT_TRUE(found("1", {&one, &four, &none}).empty());
  EXPECT_TRUE(found("2", {&four, &four}).empty());
  EXPECT_TRUE(found("3", {&six}).empty());
  for (const auto& recipes :
       {std::vector<const Value*>{&one}, {&none}, {&four, &six}, {&four, &one}}) {
    const Diagnostics errors = found("2", recipes);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].pointer, "/sweep/launcher/nodes");
  }
  EXPECT_EQ(found("4", {&six}).size(), 1U);
  EXPECT_TRUE(found("2\nranks_per_node: 3", {&six}).empty());
  EXPECT_TRUE(found("2\nranks_per_node: auto", {&six}).empty());
  EXPECT_EQ(found("2\nranks_per_node: 2", {&six}).size(), 1U);
  EXPECT_EQ(found("1\nranks_per_node: 2", {&six}).size(), 1U);
}

TEST(SettleTask, EveryTrialGetsEnoughResources) {
  const Value two = recipe("threads: 2\ndevice: {select: cpu}\n"), six = recipe("threads: 6\n"),
              cuda = recipe("threads: 1\ndevice: {select: 'cuda:1'}\n"),
              any = recipe("threads: 1\ndevice: {select: auto}\n");
  auto settings = kAuto;
  complete_task(settings, {&two, &six});
  EXPECT_EQ(settings["cores"], 6);
  EXPECT_EQ(settings["gpus"], 0);
  settings = kAuto;
  complete_task(settings, {&two, &cuda});
  EXPECT_EQ(settings["cores"], 2);
  EXPECT_EQ(settings["gpus"], 1);
  settings = kAuto;
  complete_task(settings, {&two, &any});
  EXPECT_EQ(settings["gpus"], 1) << "device: auto uses a GPU that it can see";
  settings = {{"cores", "auto"}, {"gpus", 0}};
  complete_task(settings, {&any});
  EXPECT_EQ(settings["gpus"], 0) << "explicit values take precedence";
  const Value many = recipe("threads: 1\ndevice: {count: 6}\n");
  settings = {{"cores", 1}, {"gpus", 0}, {"nodes", 2}, {"ranks_per_node", "auto"}};
  complete_task(settings, {&any, &many});
  EXPECT_EQ(settings["ranks_per_node"], 3);
  settings = {{"cores", 1}, {"gpus", 4}};
  complete_task(settings, {&six, &cuda});
  EXPECT_EQ(settings["cores"], 1) << "explicit values take precedence";
  EXPECT_EQ(settings["gpus"], 4);
}

}  // namespace
}  // namespace runner
