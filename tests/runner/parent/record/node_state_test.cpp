#include "runner/parent/record/node_state.h"

#include <gmock/gmock.h>

#include "runner/shared/record/node_index.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using Progress = NodeState::Progress;

/// Training nodes for two class pairs, an evaluation of both, and another node without inputs.
Graph two_pairs() {
  Graph graph;
  for (const char* id : {"data", "train.0-1", "train.0-2", "evaluate", "other"})
    graph.nodes.push_back({.id = id, .stage = id, .kind = "train.binary"});
  graph.nodes[1].inputs = {
      {.input = "train", .from = 0, .output = "train", .type = ArtifactType::kDataset}};
  graph.nodes[3].inputs = {
      {.input = "checkpoint", .from = 1, .output = "checkpoint", .type = ArtifactType::kCheckpoint},
      {.input = "checkpoint",
       .from = 2,
       .output = "checkpoint",
       .type = ArtifactType::kCheckpoint}};
  return graph;
}

class NodeStateTest : public testing::Test {
 protected:
  void checkpoint(const std::string& node, const std::string& name, const std::string& state) {
    folder_.write("nodes/" + node + "/checkpoints/" + name + "/state.json", state);
    folder_.write("nodes/" + node + "/checkpoints/latest", name + "\n");
  }
  std::filesystem::path node(const std::string& id) const { return folder_ / ("nodes/" + id); }
  TemporaryFolder folder_;
};

TEST_F(NodeStateTest, NodeIsMissingPartialOrDone) {
  EXPECT_EQ(node_state(folder_.path(), "train.0-1").progress, Progress::kMissing);
  checkpoint("train.0-1", "step-00000004", R"({"epoch": 2, "metric": 0.5})");
  const NodeState partial = node_state(folder_.path(), "train.0-1");
  EXPECT_EQ(partial.progress, Progress::kPartial);
  EXPECT_EQ(partial.epoch, 2);
  EXPECT_FALSE(partial.best);
  folder_.write("nodes/train.0-1/checkpoints/best", "step-00000004\n");
  const NodeState best = node_state(folder_.path(), "train.0-1");
  EXPECT_EQ(best.best, 0.5);
  EXPECT_EQ(best.best_epoch, 2);
  folder_.write("nodes/evaluate/metrics.json", "{}");
  write_finished(node("evaluate"), {.key = "k"});
  EXPECT_EQ(node_state(folder_.path(), "evaluate").progress, Progress::kDone);
  folder_.write("nodes/evaluate/metrics.json", "other");
  const NodeState damaged = node_state(folder_.path(), "evaluate");
  EXPECT_EQ(damaged.progress, Progress::kMissing);
  EXPECT_THAT(damaged.missing, testing::HasSubstr("metrics.json"));
}

TEST_F(NodeStateTest, DamagedFilesCountAsMissing) {
  checkpoint("train", "step-00000004", "no JSON");
  EXPECT_EQ(node_state(folder_.path(), "train").progress, Progress::kMissing);
  folder_.write("nodes/train/checkpoints/latest", "../../elsewhere\n");
  EXPECT_EQ(node_state(folder_.path(), "train").progress, Progress::kMissing);
}

TEST_F(NodeStateTest, NodesAfterANodeAreItsDependents) {
  EXPECT_THAT(nodes_after(two_pairs(), "train.0-1"), testing::ElementsAre("evaluate"));
  EXPECT_THAT(nodes_after(two_pairs(), "data"), testing::ElementsAre("train.0-1", "evaluate"));
  EXPECT_TRUE(nodes_after(two_pairs(), "evaluate").empty());
}

TEST_F(NodeStateTest, ResetRemovesTheNodeAndRepeatsItsDependents) {
  for (const std::string id : {"train.0-1", "train.0-2", "evaluate", "other"}) {
    folder_.write("nodes/" + id + "/metrics.json", "{}");
    write_finished(node(id), {.key = "k"});
  }
  reset_node(folder_.path(), two_pairs(), "train.0-1");
  EXPECT_FALSE(std::filesystem::exists(node("train.0-1")));
  EXPECT_EQ(node_state(folder_.path(), "train.0-2").progress, Progress::kDone);
  EXPECT_EQ(node_state(folder_.path(), "evaluate").progress, Progress::kMissing);
  EXPECT_TRUE(std::filesystem::exists(node("evaluate") / "metrics.json"));
  EXPECT_EQ(node_state(folder_.path(), "other").progress, Progress::kDone);
  reset_node(folder_.path(), two_pairs(), "train.0-1");  // already removed
}

}  // namespace
}  // namespace runner
