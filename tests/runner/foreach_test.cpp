#include "runner/foreach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_schemas.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kBasis = "data: {kind: data.folder}\nmodel: {kind: model.small}\n";

std::vector<std::string> ids(const Result<Graph>& graph) {
  if (!graph) return complaints(graph);
  std::vector<std::string> result;
  for (const Node& node : graph->nodes) result.push_back(node.id);
  return result;
}

TEST(Foreach, OneNodeAnItem) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph(kBasis + "train: {kind: train.fit, foreach: {pair: [[0, 1], [0, 2]]}}\n")),
              ElementsAre("data:", "model:",
                          "train.0-1: data.train → train, data.validation → validation, model.model → model",
                          "train.0-2: data.train → train, data.validation → validation, model.model → model"));
}

TEST(Foreach, SeveralKeysAreTheirProductLastFastest) {
  FakeRecipe fake;
  EXPECT_THAT(ids(fake.graph("d: {kind: data.list, foreach: {a: [1, 2], b: [x, 'y z/..']}}\n")),
              ElementsAre("d.1_x", "d.1_y_z_..", "d.2_x", "d.2_y_z_.."));
}

TEST(Foreach, LabelsOfEveryType) {
  FakeRecipe fake;
  EXPECT_THAT(ids(fake.graph("d: {kind: data.list, foreach: {a: [null, true, -1, 0.5, 1e-5, '', {k: v, l: [2]}, ä, .]}}\n")),
              ElementsAre("d.null", "d.true", "d.-1", "d.0.5", "d.1e-05", "d._", "d.v-2", "?"));
}

TEST(Foreach, WholeTextKeepsTheTypeAndEmbeddedBecomesText) {
  FakeRecipe fake;
  const auto graph = fake.graph(kBasis +
                                "train:\n"
                                "  kind: train.fit\n"
                                "  foreach: {pair: [[3, 4]], case: [{size: 2, tags: [x]}], rate: [0.5]}\n"
                                "  epochs: ${item.case.size}\n"
                                "  classes: ${item.pair}\n"
                                "  label: '${item.pair[0]} of ${item.case.tags[0]} at ${item.rate}'\n"
                                "  extra: {deep: [{x: '${item.pair[1]}'}], none: '$item.x {item.y}'}\n");
  ASSERT_THAT(complaints(graph), ElementsAre());
  const Value& options = graph->nodes[2].options;
  EXPECT_EQ(std::get<std::int64_t>(options.find("epochs")->data), 2);
  EXPECT_EQ(options.find("classes")->list()->size(), 2u);
  EXPECT_EQ(*options.find("label")->text(), "3 of x at 0.5");
  EXPECT_EQ(std::get<std::int64_t>(options.find("extra")->find("deep")->list()->front().find("x")->data), 4);
  EXPECT_EQ(*options.find("extra")->find("none")->text(), "$item.x {item.y}");
  EXPECT_EQ(options.find("foreach"), nullptr);
  EXPECT_EQ(options.find("inputs"), nullptr);
  EXPECT_EQ(options.find("kind"), nullptr);
}

TEST(Foreach, WhatCannotBeFilledInSaysWhy) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis +
                                    "train:\n"
                                    "  kind: train.fit\n"
                                    "  foreach: {pair: [[0, 1], [0, 2]], case: [{size: 2}]}\n"
                                    "  label: ${item.piar}\n"
                                    "  extra:\n"
                                    "    a: ${item.pair[2]}\n"
                                    "    b: ${item.pair[x]}\n"
                                    "    c: ${item.case.sise}\n"
                                    "    d: ${item.case.size.z}\n"
                                    "    e: ['on ${item.pair}']\n"
                                    "    f: on ${item.case}\n"
                                    "    g: ${item.}\n"
                                    "    h: ${item.pair\n"
                                    "    i: ${item.quite_else}\n"
                                    "  epochs: 1\n")),
              ElementsAre("?"));
}

TEST(Foreach, ItemOutsideOfAForeachIsRefused) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis + "train: {kind: train.fit, label: 'a ${item.pair} b'}\n")), ElementsAre("?"));
}

TEST(Foreach, FilledOptionsAreValidatedAgain) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis +
                                    "train:\n"
                                    "  kind: train.fit\n"
                                    "  foreach: {n: [1, 0, ten], m: [x, y]}\n"
                                    "  epochs: ${item.n}\n"
                                    "  classes: ['${item.m}']\n")),
              ElementsAre("?"));
}

TEST(Foreach, WrongForeachIsRefusedAndHidesNoOtherError) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis +
                                    "a: {kind: train.fit, foreach: {a.b: [1], x: '${item.y}', z: [1, '${item.x}']}}\n"
                                    "b: {kind: train.fit, foreach: {x: [1, 2, 1]}}\n"
                                    "c: {kind: train.fit, foreach: {x: [a/b, a:b]}}\n"
                                    "e: {kind: evaluate.score, inputs: {checkpoint: a.1.checkpoint, test: b.checkpoint}}\n")),
              ElementsAre("?"));
}

TEST(Foreach, SecretCannotNameANode) {
  FakeRecipe fake;
  auto value = read_yaml(fake.sources.add("r", "schema: 1\nd: {kind: data.list, foreach: {x: [[a, hush]]}}\n"));
  value->find("d")->find("foreach")->find("x")->list()->front().list()->back().secret_as = "${oc.env:TOKEN}";
  const auto recipe = make_recipe(*value, fake.schemas);
  ASSERT_THAT(complaints(recipe), ElementsAre());
  EXPECT_THAT(complaints(compile(*recipe, fake.schemas)), ElementsAre("?"));
}

TEST(Foreach, SecretOptionStaysOneWhenFilledIn) {
  FakeRecipe fake;
  auto value = read_yaml(fake.sources.add("r", "schema: 1\nd: {kind: data.folder, foreach: {x: [7]}, root: 'hush-${item.x}'}\n"));
  value->find("d")->find("root")->secret_as = "${oc.env:TOKEN}-${item.x}";
  const auto graph = compile(*make_recipe(*value, fake.schemas), fake.schemas);
  ASSERT_THAT(complaints(graph), ElementsAre());
  EXPECT_EQ(*graph->nodes[0].options.find("root")->text(), "hush-7");
  EXPECT_EQ(graph->nodes[0].options.find("root")->secret_as, "${oc.env:TOKEN}-7");
}

TEST(Foreach, TooManyNodesAreRefusedBeforeTheyAreMade) {
  FakeRecipe fake;
  std::string list = "[0";
  for (int i = 1; i < 400; ++i) list += ", " + std::to_string(i);
  list += "]";
  EXPECT_THAT(complaints(fake.graph("d: {kind: data.list, foreach: {a: " + list + ", b: " + list + "}}\n")), ElementsAre(HasSubstr("?")));
}

TEST(Foreach, TooLongANameIsRefused) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph("d: {kind: data.list, foreach: {a: [" + std::string(119, 'x') + "]}}\n")), ElementsAre(HasSubstr("?")));
}

TEST(Foreach, EqualIdsAreRefused) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph("d: {kind: data.list, foreach: {a: [x_y, x], b: [z, y_z]}}\n"
                                    "m.1: {kind: model.small}\nm: {kind: model.small, foreach: {a: [1]}}\n")),
              ElementsAre("?"));
}

TEST(Foreach, NodesAreWiredWhereSharedKeysAgree) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph(kBasis +
                               "train: {kind: train.fit, foreach: {pair: [[0, 1], [0, 2]], seed: [1, 2]}}\n"
                               "evaluate: {kind: evaluate.score, foreach: {seed: [2.0, 1], pair: [[0, 2]], other: [x]}}\n")),
              ElementsAre(HasSubstr("data:"), HasSubstr("model:"), HasSubstr("train.0-1_1:"), HasSubstr("train.0-1_2:"),
                          HasSubstr("train.0-2_1:"), HasSubstr("train.0-2_2:"),
                          "evaluate.2.0_0-2_x: data.test → test, train.0-2_2.checkpoint → checkpoint",
                          "evaluate.1_0-2_x: data.test → test, train.0-2_1.checkpoint → checkpoint"));
}

TEST(Foreach, ManyPortGathersAllInTheOrderOfNodes) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph("vote: {kind: evaluate.vote}\n" + kBasis + "train: {kind: train.fit, foreach: {k: [2, 1]}}\n"
                               "more: {kind: train.fit}\n"))
                  .back(),
              "vote: data.test → test, train.2.checkpoint → checkpoints, train.1.checkpoint → checkpoints, "
              "more.checkpoint → checkpoints");
}

TEST(Foreach, ManyPortGathersWhereSharedKeysAgree) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph(kBasis +
                               "train: {kind: train.fit, foreach: {pair: [[0, 1], [0, 2]], seed: [1, 2]}}\n"
                               "vote: {kind: evaluate.vote, foreach: {seed: [2]}}\n"))
                  .back(),
              "vote.2: data.test → test, train.0-1_2.checkpoint → checkpoints, train.0-2_2.checkpoint → checkpoints");
}

TEST(Foreach, ManyPortTakesAList) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph(kBasis +
                               "train: {kind: train.fit, foreach: {k: [1, 2, 3]}}\nmore: {kind: train.fit}\n"
                               "vote: {kind: evaluate.vote, inputs: {checkpoints: [more.checkpoint, train.1.checkpoint]}}\n"))
                  .back(),
              "vote: data.test → test, train.1.checkpoint → checkpoints, more.checkpoint → checkpoints");
}

TEST(Foreach, SeveralNodesForOneInputAreAmbiguous) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis + "train: {kind: train.fit, foreach: {k: [1, 2, 3, 4]}}\nevaluate: {kind: evaluate.score}\n")),
              ElementsAre("?"));
}

TEST(Foreach, OneNodeMayBeNamed) {
  FakeRecipe fake;
  EXPECT_THAT(wires(fake.graph(kBasis +
                               "train: {kind: train.fit, foreach: {k: [1, 2]}}\n"
                               "evaluate: {kind: evaluate.score, foreach: {j: [2, 1]}, inputs: {checkpoint: 'train.${item.j}.checkpoint'}}\n")),
              ElementsAre("data:", "model:", HasSubstr("train.1"), HasSubstr("train.2"),
                          "evaluate.2: data.test → test, train.2.checkpoint → checkpoint",
                          "evaluate.1: data.test → test, train.1.checkpoint → checkpoint"));
}

TEST(Foreach, ItemThatTheProducerDoesNotHaveIsUnwired) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis +
                                    "train: {kind: train.fit, foreach: {k: [1]}}\n"
                                    "evaluate: {kind: evaluate.score, foreach: {k: [1, 2, 3]}}\n")),
              ElementsAre("?"));
}

TEST(Foreach, ListForAPortThatTakesOneAndTheSameTwice) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis +
                                    "train: {kind: train.fit, inputs: {train: [data.train, data.test]}}\n"
                                    "vote: {kind: evaluate.vote, inputs: {checkpoints: [train.checkpoint, train.checkpoint]}}\n")),
              ElementsAre("?"));
}

TEST(Foreach, CircleOfManyNodesIsOneError) {
  FakeRecipe fake;
  EXPECT_THAT(complaints(fake.graph(kBasis +
                                    "a: {kind: train.fit, foreach: {k: [1, 2]}, inputs: {start: b.checkpoint}}\n"
                                    "b: {kind: train.fit, foreach: {k: [1, 2]}, inputs: {start: a.checkpoint}}\n")),
              ElementsAre("?"));
}

TEST(Foreach, NodesOfOneStageMayFollowEachOther) {
  FakeRecipe fake;
  EXPECT_THAT(ids(fake.graph(kBasis +
                             "first: {kind: train.fit}\n"
                             "train: {kind: train.fit, foreach: {step: [[c, train.b], [b, train.a], [a, first]]},\n"
                             "        inputs: {start: '${item.step[1]}.checkpoint'}}\n")),
              ElementsAre("?"));
}

TEST(Foreach, OnlyTakesAStageOrOneOfItsNodes) {
  FakeRecipe fake;
  const auto graph = fake.graph(kBasis + "train: {kind: train.fit, foreach: {k: [1, 2]}}\nvote: {kind: evaluate.vote}\n");
  ASSERT_THAT(complaints(graph), ElementsAre());
  EXPECT_THAT(ids(only(*graph, "train.2")), ElementsAre("data", "model", "train.2"));
  EXPECT_THAT(ids(only(*graph, "train")), ElementsAre("data", "model", "train.1", "train.2"));
  EXPECT_THAT(complaints(only(*graph, "train.3")), ElementsAre("?"));
}

TEST(Foreach, TenThousandNodesCompileQuickly) {
  FakeRecipe fake;
  std::string list = "[0";
  for (int i = 1; i < 4900; ++i) list += ", " + std::to_string(i);
  const auto graph = fake.graph(kBasis + "train: {kind: train.fit, foreach: {k: " + list + "]}}\n" +
                                "evaluate: {kind: evaluate.score, foreach: {k: " + list + "]}}\nvote: {kind: evaluate.vote}\n");
  ASSERT_THAT(complaints(graph), ElementsAre());
  EXPECT_THAT(graph->nodes, SizeIs(9803));
  EXPECT_THAT(graph->nodes.back().inputs, SizeIs(4901));
}

}  // namespace
}  // namespace runner
