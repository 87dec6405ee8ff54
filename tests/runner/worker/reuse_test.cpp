#include "runner/worker/reuse.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/record/node_index.h"
#include "tests/support/reuse_fixture.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
namespace fs = std::filesystem;
using Which = ReuseOptions::Which;

TEST_F(ReuseTest, NodeIsFinishedOnlyWhenItsMetricsAreOnTheDisk) {
  run("a", chain());
  EXPECT_THAT(flushed_, ElementsAre("data", "features", "train", "test"));
  EXPECT_THAT(run("b", chain(), Which::kAll), testing::Not(testing::Contains("computed")));
  EXPECT_THAT(flushed_, testing::Contains("test"));
  for (const std::string& node : flushed_) EXPECT_EQ(node.find("too late"), node.npos) << node;
}

TEST_F(ReuseTest, SecondRunWaitsForTheFirst) {
  run("a", chain());
  // Makes it look as if "a" had not finished the features yet.
  const fs::path finished = entry(), aside = folder_ / "aside";
  fs::rename(finished, aside);
  auto turn = turn_at(finished);
  ASSERT_TRUE(turn);
  on_wait_ = [&] {
    fs::rename(aside, finished);
    turn.reset();
  };
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features: waiting: another run is computing this node",
                                  "features from a"));
  // If the run that computes the features fails, the waiting run computes them.
  fs::remove(finished);
  auto other_turn = turn_at(finished);
  on_wait_ = [&] { other_turn.reset(); };
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_TRUE(fs::exists(finished));
}

TEST_F(ReuseTest, RunsWithoutReuseDoNotWait) {
  run("a", chain());
  const auto turn = turn_at(entry());
  EXPECT_THAT(run("b", chain(), Which::kNone),
              ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "read", "trained", "computed"))
      << "the existing result is reused";
}

TEST_F(ReuseTest, SecondRunReadsWhatTheFirstComputed) {
  EXPECT_THAT(run("a", chain()), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(said(), IsEmpty());
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features from a"));
  EXPECT_THAT(metrics(), ElementsAre(11, 0.5, 103));
  // The record of "b" does not need "a", so "c" reuses the features from "b" once "a" is removed.
  EXPECT_EQ(folder_.read("b/nodes/features/notes/words.txt"), "how it went");
  EXPECT_EQ(fs::hard_link_count(folder_ / "b/nodes/features/sum.safetensors"), 2u);
  EXPECT_EQ(fs::hard_link_count(folder_ / "b/nodes/features/notes/words.txt"), 1u);
  const auto record = nlohmann::json::parse(folder_.read("b/nodes/features/reused.json"));
  EXPECT_EQ(record["from"], (folder_ / "a").string());
  EXPECT_EQ(read_finished(folder_ / "b/nodes/features")->reused_from, (folder_ / "a").string());
  fs::remove_all(folder_ / "a");
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features from b"));
}

TEST_F(ReuseTest, EveryNodeIsReusedOnRequest) {
  run("a", chain());
  EXPECT_THAT(run("b", chain(), Which::kAll),
              ElementsAre("source"));  // it has no files to reuse
  EXPECT_THAT(said(), ElementsAre("features from a", "train from a", "test from a"));
  EXPECT_THAT(metrics(), ElementsAre(11, 0.5, 103));
  EXPECT_EQ(folder_.read("b/nodes/test/sum.safetensors"), "103");
  EXPECT_EQ(folder_.read("b/nodes/train/checkpoints/weights"), "weights");
}

TEST_F(ReuseTest, TrainingIsReusedIfItsWeightsAreNeeded) {
  run("a", chain());
  std::vector<Node> nodes = chain();
  nodes[3] = kept_node("test", "test.keeping_leaf", 200, {2});
  EXPECT_THAT(run("b", nodes, Which::kAll),
              ElementsAre("source", "read", "took checkpoints", "computed"));
  EXPECT_THAT(said(), ElementsAre("features from a", "train from a",
                                  "test: computed again: test.plus was 100 and is now 200"));
  EXPECT_THAT(metrics(), ElementsAre(11, 0.5, 203));
}

TEST_F(ReuseTest, ReuseCanBeDisabled) {
  run("a", chain());
  EXPECT_THAT(run("b", chain(), Which::kNone),
              ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(said(), IsEmpty());
  fs::remove_all(folder_ / "a");  // the index also has an entry for b
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "read", "trained", "computed"));
}

TEST_F(ReuseTest, ChangedFieldIsReported) {
  run("a", chain());
  EXPECT_THAT(run("b", chain(2)), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features: computed again: data.plus was 1 and is now 2"));
  world_["threads"] = 4;
  run("c", chain(2));
  EXPECT_THAT(said(), ElementsAre("features: computed again: threads was 2 and is now 4"));
  world_outside = "other pictures";
  run("d", chain(2));
  EXPECT_THAT(
      said(),
      ElementsAre(
          "features: computed again: the files of 'data' have changed; the files of 'features' "
          "have changed"));
}

TEST_F(ReuseTest, NearestEarlierNodeIsReported) {
  run("a", chain(1, 10));
  run("b", chain(2, 20));
  run("c", chain(1, 30));
  run("d", chain(2, 40));
  EXPECT_THAT(said(), ElementsAre("features: computed again: features.plus was 20 and is now 40"));
}

TEST_F(ReuseTest, SeedIsIgnoredIfTheStageDeclaresIt) {
  run("a", chain());
  std::vector<Node> nodes = chain();
  for (Node& node : nodes) node.seed = 8;
  EXPECT_THAT(run("b", nodes, Which::kAll), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), testing::Contains("train: computed again: train.seed was 7 and is now 8"));
}

TEST_F(ReuseTest, SmokeRunNeitherReusesNorIndexesNodes) {
  smoke_ = true;
  run("a", chain());
  EXPECT_FALSE(fs::exists(folder_ / "index"));
  smoke_ = false;
  run("b", chain());
  smoke_ = true;
  EXPECT_THAT(run("c", chain(), Which::kAll),
              ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(ReuseTest, ResultsFromOtherWeightsAreNeitherReusedNorIndexed) {
  run("a", chain());
  checkpoints_ = {
      {"train", {folder_ / "a/nodes/train/checkpoints", CheckpointSource::Choice::kLatest}}};
  EXPECT_THAT(run("b", chain(), Which::kAll),
              ElementsAre("source", "read", "took checkpoints", "computed"));
  EXPECT_TRUE(read_finished(folder_ / "b/nodes/test")->reuse_key.empty());
  EXPECT_FALSE(read_finished(folder_ / "b/nodes/features")->reuse_key.empty());
}

TEST_F(ReuseTest, InputsCreatedByTheRunAreRecognized) {
  world_outside = "nothing yet";
  EXPECT_THAT(run("a", chain()),
              ElementsAre("source", "wants out", "computed", "trained", "computed"));
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "wants out", "read", "trained", "computed"));
}

TEST_F(ReuseTest, ResultsAreNotIndexedIfInputsChangeDuringTheRun) {
  world_outside = "about to change";
  run("a", chain());
  EXPECT_FALSE(fs::exists(folder_ / "index"));
}

TEST_F(ReuseTest, ResumedRunReadsItsOwnFiles) {
  run("a", chain());
  fs::remove_all(folder_ / "index");
  fs::remove(folder_ / "a/nodes/train/finished.json");
  resume_ = true;
  EXPECT_THAT(run("a", chain()), ElementsAre("source", "read", "trained"));
  EXPECT_THAT(said(), IsEmpty());
  fs::remove(folder_ / "a/nodes/train/finished.json");
  world_outside = "other pictures";
  EXPECT_THAT(run("a", chain()), ElementsAre("source", "wants out", "computed", "trained"));
}

TEST_F(ReuseTest, ResumedRunReportsReusedNodesAgain) {
  run("a", chain());
  run("b", chain(), Which::kAll);
  resume_ = true;
  EXPECT_THAT(run("b", chain()), IsEmpty());
  EXPECT_THAT(said(), ElementsAre("features from a", "train from a", "test from a"));
}

TEST_F(ReuseTest, DataIsNotComputedForAFinishedTrainingStage) {
  std::vector<Node> nodes = {kept_node("data", "test.source", 1),
                             kept_node("train", "train.test", 0, {0})};
  nodes[1].inputs[0].type = ArtifactType::kDataset;
  checkpoints_ = {{"train", {folder_ / "elsewhere", CheckpointSource::Choice::kKept}}};
  world_outside = "";
  EXPECT_THAT(run("a", nodes), ElementsAre("source", "took elsewhere"));
}

TEST_F(ReuseTest, ManyRunsMayIndexTheSameNodeAtOnce) {
  const NodeIndex index(folder_ / "index");
  const nlohmann::json document = {{"nodes", {{"features", {{"kind", "x"}}}}}};
  const std::string key = document_key(document);
  folder_.write("run/nodes/features/file", "content");
  const IndexedNode node{.document = document,
                         .run = folder_ / "run",
                         .files = node_files(folder_ / "run/nodes/features"),
                         .metrics = 0,
                         .date = "today"};
  int missed = 0;
  index.put("x", "features", key, node);
  std::thread reader([&] {
    for (int i = 0; i < 200; ++i) missed += index.find("x", "features", key) ? 0 : 1;
  });
  for (int i = 0; i < 200; ++i) index.put("x", "features", key, node);
  reader.join();
  EXPECT_EQ(missed, 0);
}

TEST(NodeIndexFolder, IsTheUsersCache) {
  ASSERT_EQ(setenv("RETORT_CACHE", "/a/cache", 1), 0);
  EXPECT_EQ(node_index_folder(), "/a/cache/nodes");
  ASSERT_EQ(setenv("RETORT_CACHE", "relative", 1), 0);
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/x", 1), 0);
  EXPECT_EQ(node_index_folder(), "/x/retort/nodes");
  unsetenv("RETORT_CACHE");
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace runner
