#include "runner/shared/graph/run_order.h"

#include "runner/parent/compile/compile.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

class RunOrder : public testing::Test {
 protected:
  Graph compiled(const std::string& stages) {
    auto value = read_yaml(sources_.add("r.yaml", "schema: 1\n" + stages));
    EXPECT_TRUE(schemas_.validate(*value).empty());
    auto recipe = make_recipe(std::move(*value), schemas_);
    EXPECT_TRUE(recipe) << recipe.errors().at(0).message;
    auto graph = compile(*recipe, schemas_);
    EXPECT_TRUE(graph) << graph.errors().at(0).message;
    return *std::move(graph);
  }
  static std::string names(const Graph& graph) {
    std::string text;
    for (const std::size_t index : run_order(graph))
      text += (text.empty() ? "" : " ") + graph.nodes[index].id;
    return text;
  }
  std::string order_of(const std::string& stages) { return names(compiled(stages)); }

  const SchemaSet schemas_ = std::move(*SchemaSet::load(embedded_schemas()));
  Sources sources_;
};

constexpr const char* kPlain =
    "data: {kind: data.image_folder, root: photos}\n"
    "model: {kind: model.clip_vision}\n"
    "memory: {kind: memory.policy}\n";

TEST_F(RunOrder, IsTheRecipesOrderByDefault) {
  EXPECT_EQ(order_of(std::string(kPlain) +
                     "train: {kind: train.supervised, epochs: 1, optimizer: {learning_rate: 1}}\n"
                     "evaluate: {kind: evaluate.classification}\n"),
            "data model memory train evaluate");
}

TEST_F(RunOrder, EachItemIsEvaluatedBeforeTheNextIsTrained) {
  EXPECT_EQ(order_of(std::string(kPlain) +
                     "train: {kind: train.supervised, foreach: {rate: [1, 2, 3]}, epochs: 1, "
                     "optimizer: {learning_rate: '${item.rate}'}}\n"
                     "evaluate: {kind: evaluate.classification}\n"
                     "again: {kind: evaluate.classification, batch_size: 3}\n"),
            "data model memory train.1 evaluate.1 again.1 train.2 evaluate.2 again.2 train.3 "
            "evaluate.3 again.3");
}

TEST_F(RunOrder, NodesRunOnlyWhenNeeded) {
  EXPECT_EQ(
      order_of("data: {kind: data.image_folder, foreach: {of: [a, b]}, root: 'photos/${item.of}'}\n"
               "model: {kind: model.clip_vision}\n"
               "memory: {kind: memory.policy}\n"
               "train: {kind: train.supervised, foreach: {of: [a, b]}, epochs: 1, optimizer: "
               "{learning_rate: 1}}\n"
               "evaluate: {kind: evaluate.classification}\n"),
      "data.a model memory train.a evaluate.a data.b train.b evaluate.b");
}

Node node(const std::string& id, std::vector<Edge> inputs) {
  Node made;
  made.id = id;
  made.inputs = std::move(inputs);
  return made;
}

// Each network is exported as soon as it is trained: exporting after the vote would keep all of
// them.
TEST_F(RunOrder, NodeThatFreesTheMostMemoryComesFirst) {
  const auto checkpoint_of = [](std::size_t from) {
    return Edge{"checkpoint", from, "checkpoint", ArtifactType::kCheckpoint};
  };
  const auto predictions_of = [](std::size_t from) {
    return Edge{"predictions", from, "predictions", ArtifactType::kPredictions};
  };
  Graph graph;
  graph.nodes = {node("train.1", {}),
                 node("train.2", {}),
                 node("score.1", {checkpoint_of(0)}),
                 node("score.2", {checkpoint_of(1)}),
                 node("vote", {predictions_of(2), predictions_of(3)}),
                 node("export.1", {checkpoint_of(0)}),
                 node("export.2", {checkpoint_of(1)})};
  EXPECT_EQ(names(graph), "train.1 export.1 score.1 train.2 export.2 score.2 vote");
}

TEST_F(RunOrder, OrdersAThousandItems) {
  Graph graph;
  graph.nodes = {node("data", {})};
  for (std::size_t i = 0; i < 1000; ++i)
    graph.nodes.push_back(
        node("train." + std::to_string(i), {{"train", 0, "train", ArtifactType::kDataset}}));
  for (std::size_t i = 1; i <= 1000; ++i)
    graph.nodes.push_back(
        node("evaluate", {{"checkpoint", i, "checkpoint", ArtifactType::kCheckpoint}}));
  const std::vector<std::size_t> order = run_order(graph);
  ASSERT_EQ(order.size(), 2001U);
  for (std::size_t i = 1; i <= 1000; ++i) {
    EXPECT_EQ(order[2 * i - 1], i);
    EXPECT_EQ(order[2 * i], 1000 + i);
  }
}

}  // namespace
}  // namespace runner
