#include "runner/parent/cli/commands/explain.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

std::string told_of(const std::string& what) {
  const auto explanation = explain(small_schemas(), what);
  return explanation ? explanation->text : told(explanation.errors()).front();
}

TEST(Explain, KeyShowsTypeRangeUnitDefaultAndHelp) {
  EXPECT_EQ(told_of("train.epochs"),
            "train.epochs: an integer of at least 1 (epochs); default 10\n"
            "  Passes.\n"
            "  in train.fit\n");
}

TEST(Explain, KeyIsExplainedForEveryKindThatHasIt) {
  EXPECT_EQ(told_of("train.optimizer.learning_rate"),
            "train.optimizer.learning_rate: a number above 0\n"
            "  Step.\n"
            "  default 0.001\n"
            "    of train/optimizer/adam\n"
            "    in train.fit\n"
            "  default 0.01\n"
            "    of train/optimizer/sgd\n"
            "    in train.fit\n");
}

TEST(Explain, MappingListsTheKeysBelowIt) {
  EXPECT_EQ(told_of("train.optimizer"),
            "train.optimizer: a mapping of kind adam or sgd; default {}\n"
            "  How.\n"
            "  in train.fit\n"
            "\n"
            "Keys below it: kind, learning_rate, betas, nesterov\n");
}

TEST(Explain, RequiredOptionsAreMarked) {
  EXPECT_EQ(told_of("data.root"),
            "data.root: a string; required\n  The folder to read.\n  in data.folder\n");
  EXPECT_EQ(told_of("train.precision"),
            "train.precision: anything\n  Number format.\n  in train.fit\n");
}

TEST(Explain, RunSettingIsExplainedWithoutAKind) {
  EXPECT_EQ(told_of("seed"),
            "seed: an integer of at least 0; default 0\n  The seed for all random choices.\n");
}

TEST(Explain, KindListsPortsAndOptions) {
  EXPECT_EQ(told_of("data.folder"),
            "data.folder: Reads a folder.\n"
            "  out  train: dataset\n"
            "\n"
            "  root: a string; required\n"
            "      The folder to read.\n"
            "  size: an integer from 1 to 4096 (pixels); default 96\n"
            "      Side.\n"
            "  name: a string\n"
            "      The stage's name, for interpolations such as ${model.name}.\n"
            "  inputs: a mapping\n"
            "      Connects input ports explicitly: {port: stage.port}, or a list of these for a "
            "port that accepts several.\n"
            "  foreach: a mapping\n"
            "      Runs the stage once for each item, as a separate node: {key: [values]}. "
            "With several keys, every combination is an item. Options can use ${item.key}.\n");
}

TEST(Explain, KindOfASubMappingIsExplained) {
  EXPECT_EQ(told_of("train/optimizer/sgd"),
            "train/optimizer/sgd: SGD.\n"
            "\n"
            "  learning_rate: a number above 0; default 0.01\n"
            "      Step.\n"
            "  nesterov: true or false; default false\n"
            "      Ahead.\n");
}

TEST(Explain, FolderListsItsKinds) {
  EXPECT_EQ(told_of("train"), "train.fit: Fits a model.\n");
  EXPECT_EQ(told_of("train/optimizer"), "train/optimizer/adam: Adam.\ntrain/optimizer/sgd: SGD.\n");
}

TEST(Explain, CommonShortNameExplainsItsKey) {
  EXPECT_EQ(told_of("epochs"), "epochs: short for train.epochs\n\n" + told_of("train.epochs"));
  const auto schemas = SchemaSet::load(embedded_schemas());
  for (const char* name : {"epochs", "lr", "batch_size"})
    EXPECT_TRUE(explain(*schemas, name)) << name;
}

TEST(Explain, KeysOfListItemsAreExplained) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  for (const char* key : {"match", "learning_rate_factor", "weight_decay"}) {
    const auto one = explain(*schemas, std::string("train.parameter_groups.") + key);
    ASSERT_TRUE(one) << key;
    EXPECT_NE(one->json["options"][0]["help"], "") << key;
  }
  EXPECT_NE(explain(*schemas, "train.parameter_groups")->text.find("Keys below it: match"),
            std::string::npos);
}

TEST(Explain, CodeShowsCauseExampleAndRemedy) {
  EXPECT_EQ(told_of("e0302"),
            "E0302: a value has the wrong type\n"
            "  A value has the wrong type for its option: text instead of a number, or a single "
            "value instead of a list.\n"
            "\n"
            "  For example:\n"
            "    train: {epochs: many}\n"
            "\n"
            "  Write what is expected; \"5\" in quotes is text, 5 is a number.\n"
            "  Exit code: 78.\n");
}

TEST(Explain, UnknownNameSuggestsTheNearestKeyKindOrCode) {
  const std::string nothing = "E0501 : there is no key, kind or error called ";
  EXPECT_EQ(told_of("train.epoch"), nothing + "'train.epoch' (did you mean 'train.epochs'?)");
  EXPECT_EQ(told_of("epoch"), nothing + "'epoch' (did you mean 'train.epochs'?)");
  EXPECT_EQ(told_of("nestrov"), nothing + "'nestrov' (did you mean 'train.optimizer.nesterov'?)");
  EXPECT_EQ(told_of("train.fitt"), nothing + "'train.fitt' (did you mean 'train.fit'?)");
  EXPECT_EQ(told_of("train/optimizer/sdg"),
            nothing + "'train/optimizer/sdg' (did you mean 'train/optimizer/sgd'?)");
  EXPECT_EQ(told_of("E0999"), nothing + "'E0999' (did you mean 'E0109'?)");
  EXPECT_EQ(
      told_of("zzzz"),
      nothing +
          "'zzzz' (`retort stages` lists the kinds; `retort explain train.supervised` lists its "
          "keys)");
}

TEST(Explain, JsonIsDistinguishedByItsFirstKey) {
  const SchemaSet schemas = small_schemas();
  const auto json = [&](const std::string& what) { return explain(schemas, what)->json; };
  EXPECT_EQ(
      json("train.epochs").dump(),
      R"json({"key":"train.epochs","options":[{"takes":"an integer of at least 1 (epochs)","unit":"epochs",)json"
      R"json("default":10,"required":false,"help":"Passes.","kinds":["train.fit"],)json"
      R"json("stages":["train.fit"]}]})json");
  EXPECT_EQ(json("train.fit")["kind"], "train.fit");
  EXPECT_EQ(json("train.fit")["version"], 3);
  EXPECT_EQ(json("train/optimizer/sgd")["options"][0]["key"], "learning_rate");
  EXPECT_EQ(json("train")["kinds"][0]["kind"], "train.fit");
  EXPECT_EQ(json("E0302")["exit"], 78);
}

TEST(Explain, EveryShippedOptionAndKindIsExplained) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  std::set<std::string> keys;
  for (const Kind& kind : schemas->kinds()) {
    const auto explanation = explain(*schemas, kind.name);
    ASSERT_TRUE(explanation) << kind.name;
    for (const auto& option : explanation->json["options"]) {
      const std::string key = kind.family + "." + option["key"].get<std::string>();
      keys.insert(key);
      EXPECT_NE(option["takes"], "") << key;
      EXPECT_NE(option["help"], "") << key;
    }
  }
  for (const std::string& key : keys) EXPECT_TRUE(explain(*schemas, key)) << key;
}

}  // namespace
}  // namespace runner
