// Compiles the shipped recipes without a worker.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"

namespace runner {
namespace {

using testing::ElementsAre;

Graph graph_of(const std::string& recipe, std::vector<std::string> overrides) {
  NamedRecipe named;
  named.name = recipe;
  named.overrides = std::move(overrides);
  named.config_dirs = {RETORT_SOURCE_DIR};
  Sources sources;
  const auto prepared = prepare(named, shipped_schemas(), sources);
  if (prepared) return prepared->graph;
  for (const Diagnostic& error : prepared.errors()) ADD_FAILURE() << error.message;
  return {};
}

std::vector<std::string> ids(const Graph& graph) {
  std::vector<std::string> result;
  for (const Node& node : graph.nodes) result.push_back(node.id);
  return result;
}

TEST(ShippedRecipes, RetinaTrainsTenPairsAndGathersThem) {
  const Graph graph = graph_of("diabetic_retinopathy", {"data.root=photographs"});
  EXPECT_THAT(ids(graph),
              ElementsAre("data", "model", "memory", "train.0-1", "train.0-2", "train.0-3",
                          "train.0-4", "train.1-2", "train.1-3", "train.1-4", "train.2-3",
                          "train.2-4", "train.3-4", "evaluate"));
  std::vector<std::string> gathered;
  for (const Edge& edge : graph.nodes.back().inputs) {
    if (edge.input == "checkpoint") gathered.push_back(graph.nodes[edge.from].id);
  }
  const auto all = ids(graph);
  EXPECT_EQ(gathered, std::vector<std::string>(all.begin() + 3, all.end() - 1));
}

TEST(ShippedRecipes, EachPairHasItsTwoGrades) {
  const Graph graph = graph_of("diabetic_retinopathy", {"data.root=photographs"});
  const auto pair = std::ranges::find(graph.nodes, "train.1-3", &Node::id);
  ASSERT_NE(pair, graph.nodes.end());
  EXPECT_EQ(to_json(*pair->options.find("classes")).dump(), "[1,3]");
}

TEST(ShippedRecipes, RetinaWithOneNetworkHasNoPairs) {
  const Graph graph =
      graph_of("diabetic_retinopathy", {"data.root=photographs", "method=multi_class"});
  EXPECT_THAT(ids(graph), ElementsAre("data", "model", "memory", "train", "evaluate"));
}

TEST(ShippedRecipes, FineTuningNormalizesImagesAndAdaptsQueriesPerBackbone) {
  const auto option = [](const std::string& backbone, const char* node, const char* key) {
    const Graph graph = graph_of("finetune", {"model=lora", "model/backbone=" + backbone});
    const auto found = std::ranges::find(graph.nodes, node, &Node::id);
    return found == graph.nodes.end() ? "" : to_json(*found->options.find(key)).dump();
  };
  EXPECT_EQ(option("clip_vit_b32", "model", "targets"), R"(["q_proj"])");
  EXPECT_EQ(option("vit_b16_timm", "model", "targets"), R"(["qkv"])");
  EXPECT_EQ(option("vit_b16_hf", "model", "targets"), R"(["query"])");
  EXPECT_EQ(option("vit_b16_hf", "data", "normalize"),
            R"({"mean":[0.5,0.5,0.5],"std":[0.5,0.5,0.5]})");
}

TEST(ShippedRecipes, Dinov2SetsNormalizationSizeAndLoraTargets) {
  const auto option = [](const Graph& graph, const char* node, const char* key) {
    const auto found = std::ranges::find(graph.nodes, node, &Node::id);
    return found == graph.nodes.end() ? "" : to_json(*found->options.find(key)).dump();
  };
  const std::string normalize = R"({"mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]})";
  for (const std::string preset : {"dinov2_vits14", "dinov2_vitb14"}) {
    const std::string backbone = "model/backbone=" + preset;
    const Graph tuned = graph_of("finetune", {"model=lora", backbone});
    EXPECT_EQ(option(tuned, "model", "targets"), R"(["query"])");
    const Graph base = graph_of("few_shot_prototypes", {"data.root=photographs", backbone});
    for (const Graph& graph : {tuned, base}) {
      EXPECT_EQ(option(graph, "data", "normalize"), normalize);
      EXPECT_EQ(option(graph, "data", "image_size"), "224");
    }
  }
}

TEST(ShippedRecipes, FullFineTuningHasItsOwnTrainingOptions) {
  const auto decay = [](const std::vector<std::string>& overrides) {
    const Graph graph = graph_of("finetune", overrides);
    const auto train = std::ranges::find(graph.nodes, "train", &Node::id);
    return train == graph.nodes.end() ? "" : to_json(*train->options.find("layer_decay")).dump();
  };
  EXPECT_EQ(decay({"model=full"}), "0.75");
  EXPECT_EQ(decay({"model=full", "train=one_epoch"}), "null");
  EXPECT_EQ(decay({"model=linear_probe"}), "null");
}

TEST(ShippedRecipes, CarsAreEvaluatedTwice) {
  const Graph graph = graph_of("clip_cars", {"data.root=cars"});
  EXPECT_THAT(ids(graph), ElementsAre("data", "model", "memory", "train", "evaluate", "retrieval"));
}

/// Options left at their defaults cause no warnings, so every warning is about an option that the
/// recipe sets.
TEST(ShippedRecipes, EveryOptionARecipeSetsHasAnEffect) {
  std::size_t seen = 0;
  for (const char* folder : {"recipes", "experiments"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(RETORT_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".yaml") continue;
      NamedRecipe named;
      named.name = entry.path().stem();
      named.overrides = {"data.root=nowhere"};
      named.config_dirs = {RETORT_SOURCE_DIR};
      Sources sources;
      const auto prepared = prepare(named, shipped_schemas(), sources);
      if (!prepared) continue;  // it needs more overrides
      ++seen;
      // As in the published program, the backbone is frozen, but the loss still has variance and
      // covariance terms.
      if (named.name == "fsct_variance_covariance") continue;
      if (named.name == "finetune_lora_ranks")
        continue;  // a sweep: a single run ignores its values
      for (const Diagnostic& one : prepared->composition.warnings)
        ADD_FAILURE() << named.name << ": " << one.pointer << " " << one.message;
    }
  }
  EXPECT_GE(seen, 10u);
}

}  // namespace
}  // namespace runner
