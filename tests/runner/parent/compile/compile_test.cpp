#include "runner/parent/compile/compile.h"
#include "runner/shared/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/fake_schemas.h"

namespace runner {
namespace {

class GraphTest : public testing::Test {
 protected:
  Result<Graph> compiled(const std::string& yaml) {
    const auto recipe = fake_recipe(yaml, schemas_, sources_);
    if (!recipe) return recipe.errors();
    return compile(*recipe, schemas_);
  }
  Graph graph(const std::string& yaml) {
    auto result = compiled(yaml);
    if (!result) {
      ADD_FAILURE() << result.errors().front().message;
      return {};
    }
    return std::move(*result);
  }
  /// Returns "line:column: message | help" for each error.
  std::vector<std::string> errors(const std::string& yaml) {
    const auto result = compiled(yaml);
    std::vector<std::string> lines;
    if (result) return lines;
    for (const Diagnostic& e : result.errors()) {
      lines.push_back(std::to_string(e.where.line) + ":" + std::to_string(e.where.column) + ": " +
                      name(e.code) + " " + e.message + (e.help.empty() ? "" : " | " + e.help));
    }
    return lines;
  }
  /// Returns "node.input<node.output" for each edge.
  static std::vector<std::string> edges(const Graph& graph) {
    std::vector<std::string> lines;
    for (const Node& node : graph.nodes) {
      for (const Edge& edge : node.inputs) {
        lines.push_back(node.id + "." + edge.input + "<" + graph.nodes[edge.from].id + "." +
                        edge.output);
      }
    }
    return lines;
  }
  static std::vector<std::string> ids(const Graph& graph) {
    std::vector<std::string> result;
    for (const Node& node : graph.nodes) result.push_back(node.id);
    return result;
  }

  const SchemaSet schemas_ = fake_schemas();
  Sources sources_;
};

using testing::ElementsAre;

const std::string kWhole =
    "train: {kind: train.fit}\n"
    "data: {kind: data.two}\n"
    "model: {kind: model.net}\n"
    "evaluate: {kind: evaluate.test}\n";

TEST_F(GraphTest, PortsAreWiredByTypeAndNameAndNodesAreSorted) {
  const Graph g = graph(kWhole);
  EXPECT_THAT(ids(g), ElementsAre("data", "model", "train", "evaluate"));
  EXPECT_THAT(edges(g),
              ElementsAre("train.train<data.train", "train.model<model.model",
                          "evaluate.test<data.test", "evaluate.checkpoint<train.checkpoint"));
}

TEST_F(GraphTest, RunOnlyKeepsOneNodeAndItsInputs) {
  EXPECT_THAT(ids(graph(kWhole + "run: {only: train}\n")), ElementsAre("data", "model", "train"));
  const auto refused = compiled(kWhole + "run: {only: trian}\n");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors().front().code, ErrorCode::kUnknownNode);
  EXPECT_EQ(refused.errors().front().pointer, "/run/only");
  EXPECT_EQ(refused.errors().front().help, "did you mean 'train'?");
}

TEST_F(GraphTest, OptionalPortIsWiredOnlyToAnOutputWithItsName) {
  const Graph g =
      graph("data: {kind: data.one}\nmodel: {kind: model.net}\ntrain: {kind: train.fit}\n");
  EXPECT_THAT(edges(g), ElementsAre("train.train<data.train", "train.model<model.model"));
}

TEST_F(GraphTest, RequiredPortIsWiredToTheOnlyOutputOfItsType) {
  const Graph g = graph(
      "data: {kind: data.one}\nmodel: {kind: model.net}\ntrain: {kind: train.fit}\nevaluate: "
      "{kind: evaluate.test}\n");
  EXPECT_THAT(edges(g), testing::Contains("evaluate.test<data.train"));
}

TEST_F(GraphTest, InputsWirePortsExplicitly) {
  const Graph g = graph(
      "a: {kind: data.two}\nb: {kind: data.two}\nmodel: {kind: model.net}\n"
      "train: {kind: train.fit, inputs: {train: b.train, validation: a.test}}\n");
  EXPECT_THAT(edges(g), ElementsAre("train.train<b.train", "train.validation<a.test",
                                    "train.model<model.model"));
}

TEST_F(GraphTest, TwoStagesForOnePortAreBothShown) {
  const auto result = compiled(
      "a: {kind: data.one}\nb: {kind: data.one}\nmodel: {kind: model.net}\ntrain: {kind: "
      "train.fit}\n");
  ASSERT_FALSE(result);
  const Diagnostic& error = result.errors().front();
  EXPECT_EQ(error.message,
            "the input port 'train' is ambiguous: several outputs match: a.train, b.train");
  EXPECT_EQ(error.help, "choose one: inputs: {train: a.train}");
  EXPECT_EQ(error.where.line, 5);
  ASSERT_EQ(error.notes.size(), 2u);
  EXPECT_EQ(error.notes[1].where.line, 3);
}

TEST_F(GraphTest, EveryUnwiredPortIsReported) {
  EXPECT_THAT(
      errors("train: {kind: train.fit}\n"),
      ElementsAre("2:1: E0401 nothing feeds the input port 'train': no other stage outputs a "
                  "dataset | add such a stage: `retort stages` lists the kinds with their outputs",
                  "2:1: E0401 nothing feeds the input port 'model': no other stage outputs a model "
                  "| add such a stage: `retort stages` lists the kinds with their outputs"));
}

TEST_F(GraphTest, UnknownPortsAndStagesSuggestTheNearest) {
  EXPECT_THAT(
      errors("data: {kind: data.one}\nmodel: {kind: model.net}\n"
             "train: {kind: train.fit, inputs: {trian: data.train, train: dat.train, model: "
             "model.mod}}\n"),
      ElementsAre(
          "4:35: E0403 'train.fit' has no input port 'trian' | did you mean 'train'?",
          "4:61: E0403 there is no stage 'dat' | did you mean 'data'?",
          "4:79: E0403 the stage 'model' has no output port 'mod' | did you mean 'model'?"));
}

TEST_F(GraphTest, WrongTypeIsRejected) {
  EXPECT_THAT(
      errors("data: {kind: data.one}\nmodel: {kind: model.net}\ntrain: {kind: train.fit, inputs: "
             "{train: model.model}}\n"),
      ElementsAre(
          "4:42: E0404 'model.model' is a model, but the input port 'train' takes a dataset | "
          "`retort stages` lists the outputs of each kind with their types"));
}

TEST_F(GraphTest, CycleIsShownAsAChain) {
  EXPECT_THAT(errors("a: {kind: train.loop, inputs: {checkpoint: b.checkpoint}}\nb: {kind: "
                     "train.loop, inputs: {checkpoint: a.checkpoint}}\n"),
              ElementsAre("2:31: E0405 stages depend on each other in a cycle: a ← b ← a | remove "
                          "one of these inputs"));
  EXPECT_THAT(errors("a: {kind: train.loop, inputs: {checkpoint: a.checkpoint}}\n"),
              ElementsAre("2:31: E0405 stages depend on each other in a cycle: a ← a | remove one "
                          "of these inputs"));
}

const std::string kEnsemble =
    "data: {kind: data.one, foreach: {pair: [[0, 1], [0, 2]]}, pick: \"${item.pair}\", text: "
    "\"${item.pair[1]} of ${item.pair}\"}\n"
    "model: {kind: model.net}\n"
    "train: {kind: train.fit, foreach: {pair: [[0, 1], [0, 2]]}, positive: \"${item.pair[1]}\"}\n"
    "vote: {kind: evaluate.vote}\n";

TEST_F(GraphTest, ForeachCreatesANodePerItemAndListPortsGatherTheNodes) {
  const Graph g = graph(kEnsemble);
  EXPECT_THAT(ids(g),
              ElementsAre("data.0-1", "data.0-2", "model", "train.0-1", "train.0-2", "vote"));
  EXPECT_THAT(edges(g), ElementsAre("train.0-1.train<data.0-1.train", "train.0-1.model<model.model",
                                    "train.0-2.train<data.0-2.train", "train.0-2.model<model.model",
                                    "vote.checkpoints<train.0-1.checkpoint",
                                    "vote.checkpoints<train.0-2.checkpoint"));
  EXPECT_EQ(to_json(g.nodes[1].options).dump(), R"({"pick":[0,2],"text":"2 of 0-2"})");
  EXPECT_EQ(to_json(g.nodes[4].options).dump(), R"({"positive":2})");
}

TEST_F(GraphTest, EvaluationInheritsTheForeachOfItsTrainingStage) {
  const std::string rates =
      "data: {kind: data.two}\nmodel: {kind: model.net}\n"
      "train: {kind: train.fit, foreach: {rate: [1, 2]}, positive: \"${item.rate}\"}\n";
  const Graph g = graph(rates + "test: {kind: evaluate.test}\n");
  EXPECT_THAT(ids(g), ElementsAre("data", "model", "train.1", "train.2", "test.1", "test.2"));
  EXPECT_EQ(g.nodes[3].title, "train[rate=2]");
  EXPECT_EQ(g.nodes[5].title, "test[rate=2]");
  EXPECT_EQ(g.nodes[0].title, "data");
  const std::string two = rates + "more: {kind: train.fit}\n";
  EXPECT_THAT(
      ids(graph(two + "test: {kind: evaluate.test, inputs: {checkpoint: train.checkpoint}}\n")),
      testing::IsSupersetOf({"test.1", "test.2"}));
  EXPECT_THAT(
      ids(graph(two + "test: {kind: evaluate.test, inputs: {checkpoint: more.checkpoint}}\n")),
      testing::Contains("test"));
  // A stage's own foreach takes precedence, and a stage that gathers the nodes remains a single
  // node.
  EXPECT_THAT(
      ids(graph(
          rates +
          "test: {kind: evaluate.test, foreach: {rate: [2]}}\nvote: {kind: evaluate.vote}\n")),
      testing::IsSupersetOf({"test.2", "vote"}));
}

TEST_F(GraphTest, SeveralForeachKeysMakeAProductWithTheLastVaryingFastest) {
  EXPECT_THAT(ids(graph("data: {kind: data.one, foreach: {a: [1, 2], b: [x, 'y z']}}\n")),
              ElementsAre("data.1_x", "data.1_y_z", "data.2_x", "data.2_y_z"));
}

TEST_F(GraphTest, FilledInValuesAreValidatedAgain) {
  EXPECT_THAT(errors("data: {kind: data.one}\nmodel: {kind: model.net}\ntrain: {kind: train.fit, "
                     "foreach: {n: [1, -1]}, positive: \"${item.n}\"}\n"),
              ElementsAre(testing::AllOf(testing::StartsWith("4:"), testing::HasSubstr("E0303"),
                                         testing::HasSubstr("(in train.-1)"))));
}

TEST_F(GraphTest, UnknownItemSuggestsTheNearestAndIsReportedOnce) {
  EXPECT_THAT(errors("data: {kind: data.one, foreach: {pair: [1, 2]}, text: \"${item.pairs}\"}\n"),
              ElementsAre("2:55: E0408 foreach has no key 'pairs' | did you mean 'pair'?"));
}

TEST_F(GraphTest, OversizedForeachIsRejectedBeforeExpansion) {
  const std::string list = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]";
  std::string keys;
  for (const char key : std::string("abcdefghij")) keys += std::string(1, key) + ": " + list + ", ";
  EXPECT_THAT(errors("data: {kind: data.one, foreach: {" + keys + "}}\n"),
              ElementsAre("2:33: E0406 foreach creates more than 1000 nodes | shorten its lists"));
}

TEST_F(GraphTest, ItemsWithTheSameNodeNameAreRejected) {
  EXPECT_THAT(errors("data: {kind: data.one, foreach: {a: ['x y', x_y]}}\n"),
              ElementsAre("2:33: E0407 two nodes would be called 'data.x_y' | give foreach items "
                          "with different values"));
}

TEST_F(GraphTest, ItemsCannotEscapeTheNodesFolder) {
  const Graph made = graph(
      "data: {kind: data.two, foreach: {x: ['../../up', '/etc', 'a/b', \"line\\nbreak\", 'ä', "
      "'']}}\n");
  EXPECT_THAT(ids(made), ElementsAre("data..._.._up", "data._etc", "data.a_b", "data.line_break",
                                     "data.__", "data."));
}

TEST_F(GraphTest, NodeNamesAreAtMost120Characters) {
  const auto item = [](std::size_t size) {
    return "data: {kind: data.two, foreach: {x: [" + std::string(size, 'x') + "]}}\n";
  };
  EXPECT_EQ(graph(item(115)).nodes.front().id.size(), 120u);
  EXPECT_THAT(errors(item(116)), ElementsAre(testing::HasSubstr("is longer than 120 characters")));
}

TEST_F(GraphTest, ForeachIntoASinglePortIsAmbiguous) {
  EXPECT_THAT(errors("data: {kind: data.one, foreach: {a: [1, 2]}}\nmodel: {kind: "
                     "model.net}\ntrain: {kind: train.fit}\n"),
              ElementsAre("4:1: E0402 the input port 'train' is ambiguous: several outputs match: "
                          "data.1.train, data.2.train | give this stage the same foreach, or use a "
                          "kind with a port that takes many outputs"));
}

TEST_F(GraphTest, AddingAStageKeepsTheSeedsOfOthers) {
  const Graph before = graph("data: {kind: data.one}\n");
  const Graph after = graph("model: {kind: model.net}\ndata: {kind: data.one}\n");
  EXPECT_EQ(after.nodes[1].seed, before.nodes[0].seed);
  EXPECT_NE(after.nodes[0].seed, before.nodes[0].seed);
  EXPECT_NE(graph("seed: 1\ndata: {kind: data.one}\n").nodes[0].seed, before.nodes[0].seed);
}

TEST_F(GraphTest, OnlyKeepsTheInputsOfTheNode) {
  const auto part = only(graph(kWhole), "train");
  ASSERT_TRUE(part);
  EXPECT_THAT(ids(*part), ElementsAre("data", "model", "train"));
  const auto pair = only(graph(kEnsemble), "train.0-2");
  ASSERT_TRUE(pair);
  EXPECT_THAT(edges(*pair),
              ElementsAre("train.0-2.train<data.0-2.train", "train.0-2.model<model.model"));
}

TEST_F(GraphTest, OnlyWithoutDataDropsDataStages) {
  const auto part = only_without_data(graph(kWhole), "train");
  ASSERT_TRUE(part);
  EXPECT_THAT(ids(*part), ElementsAre("model", "train"));
  EXPECT_THAT(edges(*part), ElementsAre("train.model<model.model"));
}

TEST_F(GraphTest, OnlyWithAnUnknownNodeSuggestsTheNearest) {
  const auto part = only(graph(kWhole), "trian");
  ASSERT_FALSE(part);
  EXPECT_EQ(part.errors().front().message, "the graph has no node 'trian'");
  EXPECT_EQ(part.errors().front().help, "did you mean 'train'?");
}

TEST_F(GraphTest, SurvivesConversionToJsonAndBack) {
  const Graph g = graph(kEnsemble);
  EXPECT_EQ(to_json(graph_from_json(to_json(g))).dump(), to_json(g).dump());
}

TEST_F(GraphTest, TrustedPythonFilesTravelWithTheGraph) {
  Graph g = graph(kEnsemble);
  EXPECT_FALSE(to_json(g).contains("python"));
  g.python.files = {{"/a.py", "12"}};
  g.python.folders = {"/work", "/recipes"};
  g.python.entries = {{"/model/entry", "/a.py", "12", "its text"}};
  g.nodes[0].code = "34";
  const auto json = to_json(g);
  EXPECT_EQ(json["python"].dump(), R"({"files":{"/a.py":"12"},"folders":["/work","/recipes"]})");
  const Graph read = graph_from_json(json);
  EXPECT_EQ(read.python.files, g.python.files);
  EXPECT_EQ(read.python.folders, g.python.folders);
  EXPECT_EQ(read.nodes[0].code, "34");
}

TEST_F(GraphTest, InvalidJsonIsRejected) {
  const auto good = to_json(graph(kWhole));
  const auto refused = [](nlohmann::ordered_json json) {
    try {
      graph_from_json(json);
      return std::string("accepted");
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  auto bad = good;
  bad["nodes"][2]["inputs"][0]["from"] = 2;
  EXPECT_EQ(refused(bad), "graph: an edge starts at a node that runs later");
  bad = good;
  bad["nodes"][0]["id"] = "../x";
  EXPECT_EQ(refused(bad), "graph: a node's id is not a file name");
  for (const auto& id :
       std::vector<std::string>{"", ".a", "a/b", "a b", "a\n", "ä", std::string(121, 'x')}) {
    bad["nodes"][0]["id"] = id;
    EXPECT_EQ(refused(bad), "graph: a node's id is not a file name") << id;
  }
  bad = good;
  bad["nodes"][0]["id"] = std::string(120, 'x');
  EXPECT_EQ(refused(bad), "accepted");
  bad = good;
  bad["nodes"][1]["id"] = "data";
  EXPECT_EQ(refused(bad), "graph: two nodes have the id 'data'");
  bad = good;
  bad.erase("seed");
  EXPECT_EQ(refused(bad), "the graph has no 'seed'");
  EXPECT_EQ(refused(3), "the graph is not a JSON object");
}

}  // namespace
}  // namespace runner
