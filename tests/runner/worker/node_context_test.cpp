#include "runner/worker/node_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_layout.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Node node_of(const std::string& id, const std::string& kind, std::vector<Edge> inputs = {}) {
  return {.id = id,
          .stage = id,
          .kind = kind,
          .options = {Value::Map{}, {}},
          .pointer = "/" + id,
          .inputs = std::move(inputs)};
}

Edge data_edge(const std::string& input, std::size_t from, const std::string& output) {
  return {input, from, output, ArtifactType::kDataset};
}

Edge weights_edge(std::size_t from) {
  return {"checkpoint", from, "checkpoint", ArtifactType::kCheckpoint};
}

/// Data, its features, and two training nodes that use them; the second continues the first and is
/// evaluated.
Graph features_graph(const std::string& tested) {
  Graph graph;
  graph.nodes = {node_of("data", "data.image_folder"),
                 node_of("features", "data.features",
                         {data_edge("train", 0, "train"), data_edge("validation", 0, "validation"),
                          data_edge("test", 0, "test")}),
                 node_of("first", "train.supervised", {data_edge("train", 1, "train")}),
                 node_of("second", "train.supervised",
                         {data_edge("validation", 1, "validation"), weights_edge(2)}),
                 node_of("evaluate", "evaluate.classification",
                         {data_edge("test", 1, tested), weights_edge(3)})};
  return graph;
}

constexpr std::size_t kDataNode = 0, kFirst = 2, kEvaluateNode = 4;

NodeFacts facts_of(std::size_t index, const Graph& graph, const RunOptions& options) {
  return node_facts(index, graph, options, "cpu", {}, std::nullopt);
}

TEST(NodeFacts, EvaluationKnowsTheDataOfEarlierTrainingStages) {
  const Graph graph = features_graph("test");
  const NodeFacts facts = facts_of(kEvaluateNode, graph, {.folder = "run"});
  ASSERT_EQ(facts.trained_data.size(), 1u);
  EXPECT_EQ(facts.trained_data[0].folder, fs::path("run/nodes/data"));
  EXPECT_THAT(facts.trained_data[0].parts, UnorderedElementsAre("train", "validation"));
  EXPECT_FALSE(facts.trained_data[0].is_earlier);
  EXPECT_THAT(facts_of(kFirst, graph, {.folder = "run"}).trained_data, IsEmpty());
}

TEST(NodeFacts, EvaluationOfAnEarlierRunUsesItsSplit) {
  const Graph graph = features_graph("test");
  RunOptions options{.folder = "new", .divisions = "old"};
  options.trained["first"] = options.trained["second"] = {"old/nodes/second/checkpoints"};
  const NodeFacts facts = facts_of(kEvaluateNode, graph, options);
  ASSERT_EQ(facts.trained_data.size(), 1u);
  EXPECT_EQ(facts.trained_data[0].folder, fs::path("old/nodes/data"));
  EXPECT_TRUE(facts.trained_data[0].is_earlier);
}

TEST(NodeFacts, EvaluationWiredToTheValidationPartMayTestIt) {
  const Graph graph = features_graph("validation");
  EXPECT_THAT(facts_of(kEvaluateNode, graph, {.folder = "run"}).trained_data[0].parts,
              ElementsAre("train"));
}

TEST(NodeFacts, DryRunDetectsEvaluationOfTheTrainingPart) {
  const auto found = facts_of(kEvaluateNode, features_graph("train"), {}).trained_data;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].folder.empty());
  EXPECT_THAT(found[0].parts, ElementsAre("train"));
}

TEST(NodeFacts, DryRunOfANewRunHasNoSplit) {
  const Graph graph = features_graph("test");
  EXPECT_THAT(facts_of(kEvaluateNode, graph, {}).trained_data, IsEmpty());
  EXPECT_THAT(facts_of(kEvaluateNode, features_graph("validation"), {}).trained_data, IsEmpty());
  EXPECT_TRUE(facts_of(kDataNode, graph, {}).earlier.empty());
}

Value option(const std::string& key, Value value) {
  return {Value::Map{{key, {}, std::move(value)}}, {}};
}
Value text_of(const std::string& text) { return {text, {}}; }

/// Writes the record of a training run that starts from `warm_start`, on its own data.
void record_run(const TemporaryFolder& place, const std::string& run, const std::string& warm_start,
                const std::vector<std::string>& trainings = {"train"}) {
  Graph graph{.working_folder = place.path().string()};
  graph.nodes = {node_of("data", "data.image_folder")};
  for (const std::string& training : trainings) {
    graph.nodes.push_back(node_of(training, "train.supervised", {data_edge("train", 0, "train")}));
    graph.nodes.back().options = option("warm_start", text_of(warm_start));
  }
  place.write(run + "/.retort/run.json", "{}");
  place.write(run + "/.retort/graph.json", to_json(graph).dump());
}

TEST(NodeFacts, EvaluationKnowsTheDataBehindWarmStarts) {
  const TemporaryFolder place;
  record_run(place, "oldest", "none");
  record_run(place, "old", "oldest/nodes/train/checkpoints/step-00000001", {"train", "other"});
  Graph graph = features_graph("test");
  graph.working_folder = place.path().string();
  graph.nodes[kFirst].options = option("warm_start", text_of("old/nodes/train"));
  const auto found = facts_of(kEvaluateNode, graph, {.folder = "run"}).trained_data;
  std::vector<fs::path> folders;
  for (const TrainedData& one : found) folders.push_back(one.folder);
  EXPECT_THAT(folders, UnorderedElementsAre("run/nodes/data", place / "old/nodes/data",
                                            place / "oldest/nodes/data"));
  graph.nodes[kFirst].options = option("warm_start", text_of("oldest"));
  EXPECT_EQ(facts_of(kEvaluateNode, graph, {.folder = "run"}).trained_data.size(), 2u);
}

TEST(NodeFacts, EvaluationKnowsTheDataBehindTheModelWeights) {
  const TemporaryFolder place;
  record_run(place, "old", "none");
  place.write("old/export/best/config.json", "{}");
  Graph graph = features_graph("test");
  graph.working_folder = place.path().string();
  graph.nodes.insert(graph.nodes.begin(), node_of("model", "model.local"));
  for (Node& node : graph.nodes)
    for (Edge& edge : node.inputs) ++edge.from;
  graph.nodes[0].options =
      option("backbone", option("weights", {Value::List{text_of("old/export/best")}, {}}));
  graph.nodes[1 + kFirst].inputs.push_back({"model", 0, "model", ArtifactType::kModel});
  const auto found = facts_of(1 + kEvaluateNode, graph, {.folder = "run"}).trained_data;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(std::vector({found[0].folder, found[1].folder}),
              testing::Contains(place / "old/nodes/data"));
}

TEST(NodeFacts, UnreadableRunIsReported) {
  const TemporaryFolder place;
  place.write("old/.retort/run.json", "{}");
  place.write("old/.retort/graph.json", "{\"nodes\": 5}");
  Graph graph = features_graph("test");
  graph.nodes[kFirst].options = option("warm_start", text_of((place / "old").string()));
  const auto found = facts_of(kEvaluateNode, graph, {.folder = "run"}).trained_data;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(std::vector({found[0].folder, found[1].folder}), testing::Contains(place / "old"));
}

TEST(NodeFacts, SplitComesFromThisRunOrTheEarlierOne) {
  const TemporaryFolder own, other;
  const Graph graph = features_graph("test");
  const RunOptions resumed{.folder = own.path(), .resume = true, .divisions = other.path()};
  EXPECT_TRUE(facts_of(kDataNode, graph, resumed).earlier.empty());
  const NodeLayout before = RunLayout(other.path()).node("data");
  fs::create_directories(before.folder());
  other.write("nodes/data/division.gz", "");
  EXPECT_EQ(facts_of(kDataNode, graph, resumed).earlier, before.folder());
  EXPECT_TRUE(facts_of(kFirst, graph, resumed).earlier.empty());
  const NodeLayout mine = RunLayout(own.path()).node("data");
  fs::create_directories(mine.folder());
  own.write("nodes/data/finished.json", "");
  EXPECT_EQ(facts_of(kDataNode, graph, resumed).earlier, mine.folder());
  const RunOptions planned{.resume = true, .resumed = own.path()};
  EXPECT_EQ(facts_of(kDataNode, graph, planned).earlier, mine.folder());
}

}  // namespace
}  // namespace runner
