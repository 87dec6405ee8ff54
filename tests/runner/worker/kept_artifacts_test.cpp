#include "runner/worker/kept_artifacts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

Edge dataset(const std::string& input, std::size_t from, const std::string& output) {
  return {input, from, output, ArtifactType::kDataset};
}

/// Data, its features, a training node that uses the features, and its evaluation.
Graph of_features() {
  Graph graph;
  const auto add = [&](const char* id, const char* kind, std::vector<Edge> inputs) {
    graph.nodes.push_back({.id = id,
                           .stage = id,
                           .kind = kind,
                           .options = {},
                           .pointer = "",
                           .inputs = std::move(inputs)});
  };
  add("data", "data.image_folder", {});
  add("features", "data.features", {dataset("train", 0, "train"), dataset("test", 0, "test")});
  add("train", "train.supervised", {dataset("train", 1, "train")});
  add("evaluate", "evaluate.classification",
      {dataset("test", 1, "test"), {"checkpoint", 2, "checkpoint", ArtifactType::kCheckpoint}});
  return graph;
}

TEST(KeptArtifacts, PassedThroughPartIsKeptForItsConsumer) {
  const Graph graph = of_features();
  const std::vector<bool> all(graph.nodes.size(), true);
  const CheckpointSources none, trained = {{"train", {}}};
  EXPECT_THAT(KeptArtifacts(graph, none, all).wanted(0), UnorderedElementsAre("train", "test"));
  const KeptArtifacts kept(graph, trained, all);
  EXPECT_THAT(kept.wanted(0), UnorderedElementsAre("test"));
  EXPECT_THAT(kept.wanted(1), UnorderedElementsAre("test"));
}

TEST(KeptArtifacts, SkippedNodesNeedNoArtifacts) {
  const Graph graph = of_features();
  const CheckpointSources none;
  EXPECT_THAT(KeptArtifacts(graph, none, {true, true, true, false}).wanted(0),
              UnorderedElementsAre("train"));
  EXPECT_THAT(KeptArtifacts(graph, none, {true, false, false, false}).wanted(0), IsEmpty());
}

}  // namespace
}  // namespace runner
