#include "runner/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_schemas.h"

namespace runner {
namespace {

using testing::ElementsAre;

const std::string kClassify =
    "data: {kind: data.folder}\nmodel: {kind: model.small}\ntrain: {kind: train.fit}\nevaluate: {kind: evaluate.score}\n";

TEST(Graph, WiresByTypeAndName) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph(kClassify)),
              ElementsAre("data:", "model:", "train: data.train → train, data.validation → validation, model.model → model",
                          "evaluate: data.test → test, train.checkpoint → checkpoint"));
}

TEST(Graph, OrderIsAsWrittenAsFarAsEdgesAllow) {
  FakeRecipe fake;
  const auto graph = fake.graph(
      "evaluate: {kind: evaluate.score}\ntrain: {kind: train.fit}\nmodel: {kind: model.small}\ndata: {kind: data.folder}\n");
  ASSERT_THAT(complaints(graph), ElementsAre());
  std::vector<std::string> ids;
  for (const Node& node : graph->nodes) ids.push_back(node.id);
  EXPECT_THAT(ids, ElementsAre("model", "data", "train", "evaluate"));
}

TEST(Graph, CarriesWhatARunNeeds) {
  FakeRecipe fake;
  const auto graph = fake.graph("name: a\nseed: 5\nthreads: 2\ndata: {kind: data.folder, name: x}\n");
  ASSERT_THAT(complaints(graph), ElementsAre());
  EXPECT_EQ(graph->recipe, "a");
  EXPECT_EQ(graph->seed, 5u);
  EXPECT_EQ(graph->threads, 2);
  EXPECT_EQ(graph->device, "cpu");
  const Node& node = graph->nodes[0];
  EXPECT_EQ(node.kind, "data.folder");
  EXPECT_EQ(node.stage, "data");
  EXPECT_EQ(node.pointer, "/data");
  EXPECT_EQ(node.seed, node_seed(5, "data"));
  ASSERT_EQ(node.options.map()->size(), 1u) << "kind and name are not options";
  EXPECT_EQ(node.options.map()->front().key, "root");
}

TEST(Graph, SeedIsAFunctionOfTheRunsSeedAndTheId) {
  EXPECT_EQ(node_seed(0, "train"), 0u);
  EXPECT_EQ(node_seed(42, "train.0-1"), 0u);
  EXPECT_EQ(node_seed(0, ""), 0u);
}

TEST(Graph, AnotherStageShiftsNoSeed) {
  FakeRecipe fake;
  const auto one = fake.graph("data: {kind: data.list}\n");
  const auto two = fake.graph("model: {kind: model.small}\ndata: {kind: data.list}\n");
  EXPECT_EQ(one->nodes[0].seed, two->nodes[1].seed);
  EXPECT_NE(two->nodes[0].seed, two->nodes[1].seed);
}

TEST(Graph, OnlyOutputOfTheTypeIsTakenWhateverItsName) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("data: {kind: data.list}\nmodel: {kind: model.small}\ntrain: {kind: train.fit}\n"
                               "evaluate: {kind: evaluate.score}\n"))
                  .back(),
              "evaluate: data.train → test, train.checkpoint → checkpoint");
}

TEST(Graph, OptionalPortDoesNotTakeWhatAnotherInputTakes) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("data: {kind: data.list}\nmodel: {kind: model.small}\ntrain: {kind: train.fit}\n")).back(),
              "train: data.train → train, model.model → model");
}

TEST(Graph, OptionalPortTakesTheOnlyOutputThatIsFree) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("data: {kind: data.list}\nmore: {kind: data.list}\nmodel: {kind: model.small}\n"
                               "train: {kind: train.fit, inputs: {train: data.train}}\n")),
              ElementsAre("5:1 E0402 ?"));
}

TEST(Graph, OptionalPortTakesNothingFromItsOwnKind) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("data: {kind: data.list}\nmodel: {kind: model.small}\nfirst: {kind: train.fit}\n"
                               "second: {kind: train.fit}\nthird: {kind: train.fit, inputs: {start: first.checkpoint}}\n")),
              ElementsAre("data:", "model:", "first: data.train → train, model.model → model",
                          "second: data.train → train, model.model → model",
                          "third: data.train → train, model.model → model, first.checkpoint → start"));
}

TEST(Graph, PlannedKindCompiles) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("model: {kind: model.dream}\n")), ElementsAre("model:"));
}

TEST(Graph, UnwiredPortNamesKindsThatWouldFeedIt) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph("evaluate: {kind: evaluate.score}\ntrain: {kind: train.fit}\n")), ElementsAre("?"));
}

TEST(Graph, TwoStagesForOnePortAreBothShown) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph("data: {kind: data.list}\nmore: {kind: data.folder}\nmodel: {kind: model.small}\n"
                                    "train: {kind: train.fit}\n")),
              ElementsAre("?"));
}

TEST(Graph, SeveralOutputsNoneOfTheName) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph("a: {kind: train.fit}\n" + kClassify)), ElementsAre("?"));
}

TEST(Graph, InputsChooseAmongSeveral) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("data: {kind: data.list}\nmore: {kind: data.folder}\nmodel: {kind: model.small}\n"
                               "train:\n  kind: train.fit\n  inputs: {train: more.test, validation: [data.train]}\n"))
                  .back(),
              "train: more.test → train, data.train → validation, model.model → model");
}

TEST(Graph, StageNameMayHoldDots) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("da.ta: {kind: data.list}\nmodel: {kind: model.small}\n"
                               "train: {kind: train.fit, inputs: {train: da.ta.train}}\n"))
                  .back(),
              "train: da.ta.train → train, model.model → model");
}

TEST(Graph, EveryMistakeInInputsIsReportedAtItsPlace) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph("data: {kind: data.folder}\nmodel: {kind: model.small}\n"
                                    "train:\n"
                                    "  kind: train.fit\n"
                                    "  inputs:\n"
                                    "    trian: data.train\n"
                                    "    train: dta.train\n"
                                    "    validation: data.valid\n"
                                    "    model: data.test\n"
                                    "    start: model\n"
                                    "more:\n"
                                    "  kind: train.fit\n"
                                    "  inputs: {train: nowhere, model: xyz.model, validation: model.zzz, start: [a.b, c.d]}\n"
                                    "data2: {kind: data.list, inputs: {train: data.train}}\n"
                                    "e: {kind: evaluate.score, inputs: {checkpoint: e.metrics, test: e.q}}\n")),
              ElementsAre("?"));
}

TEST(Graph, CircleIsNamedWhereItWasWritten) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph("data: {kind: data.list}\nmodel: {kind: model.small}\n"
                                    "a: {kind: train.fit, inputs: {start: c.checkpoint}}\n"
                                    "b: {kind: train.fit, inputs: {start: a.checkpoint}}\n"
                                    "c: {kind: train.fit, inputs: {start: b.checkpoint}}\n"
                                    "d: {kind: train.fit, inputs: {start: d.checkpoint}}\n"
                                    "after: {kind: evaluate.score, inputs: {checkpoint: d.checkpoint}}\n")),
              ElementsAre("?"));
}

TEST(Graph, OnlyKeepsWhatANodeNeeds) {
  FakeRecipe fake;
  const auto graph = fake.graph("evaluate: {kind: evaluate.score}\n" + kClassify.substr(0, kClassify.find("evaluate")));
  ASSERT_THAT(complaints(graph), ElementsAre());
  EXPECT_THAT(wires(only(*graph, "train")),
              ElementsAre("data:", "model:", "train: data.train → train, data.validation → validation, model.model → model"));
  EXPECT_THAT(wires(only(*graph, "model")), ElementsAre("model:"));
  EXPECT_EQ(only(*graph, "model")->nodes[0].seed, graph->nodes[1].seed);
}

TEST(Graph, OnlyOfAnUnknownNodeSuggestsTheNearest) {
  FakeRecipe fake;
  const auto graph = fake.graph(kClassify);
  EXPECT_THAT(complaints(only(*graph, "trian")), ElementsAre("?"));
  EXPECT_THAT(complaints(only(*graph, "zzz")), ElementsAre("?"));
}

}  // namespace
}  // namespace runner
