#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> recipe(const std::string& entries) {
  const SchemaSet schemas = small_schemas();
  Value value = written("{\"schema\": 1, " + entries + "}");
  return told(schemas.validate(value));
}

TEST(SchemaKinds, UnknownKindSuggestsTheNearestAndListsKinds) {
  EXPECT_THAT(recipe(R"("train": {"kind": "train.fitt", "epoch": 1})"),
              ElementsAre("E0306 /train/kind: unknown kind 'train.fitt' (did you mean 'train.fit'? "
                          "kinds: train.fit)"));
  EXPECT_THAT(
      recipe(R"("train": {"kind": "wholly.other"})"),
      ElementsAre(
          "E0306 /train/kind: unknown kind 'wholly.other' (kinds: data.folder, train.fit)"));
  EXPECT_THAT(recipe(R"("train": {"kind": "train.fit", "optimizer": {"kind": "adm", "x": 1}})"),
              ElementsAre("E0306 /train/optimizer/kind: unknown kind 'adm' (did you mean 'adam'? "
                          "kinds: adam, sgd)"));
}

TEST(SchemaKinds, KindThatIsNotAStringIsRejected) {
  EXPECT_THAT(recipe(R"("train": {"kind": 3})"),
              ElementsAre("E0302 /train/kind: expected a kind, got 3 (kinds: train.fit)"));
}

TEST(SchemaKinds, KindInsteadOfItsMappingSuggestsTheMapping) {
  EXPECT_THAT(recipe(R"("train": {"kind": "train.fit", "optimizer": "sgd"})"),
              ElementsAre("E0302 /train/optimizer: expected a mapping, got the string \"sgd\" "
                          "(write {kind: sgd})"));
}

TEST(SchemaKinds, MissingKindListsTheFamily) {
  EXPECT_THAT(
      recipe(R"("train": {"epochs": 3})"),
      ElementsAre("E0305 /train/kind: missing key 'kind' in the stage 'train' (kinds: train.fit)"));
  EXPECT_THAT(recipe(R"("other": {"epochs": 3})"),
              ElementsAre("E0305 /other/kind: missing key 'kind' in the stage 'other' (kinds: "
                          "data.folder, train.fit)"));
}

TEST(SchemaKinds, MisspelledReservedKeySuggestsTheNearest) {
  EXPECT_THAT(recipe(R"("sede": 1)"),
              ElementsAre("E0301 /sede: unknown key 'sede' (did you mean 'seed'?)"));
  EXPECT_THAT(
      recipe(R"("devise": {"select": "cpu"})"),
      ElementsAre("E0305 /devise/kind: missing key 'kind' in the stage 'devise' (did you "
                  "mean 'device'? every other top-level mapping is a stage with a 'kind')"));
  EXPECT_THAT(
      recipe(R"("wholly": 1)"),
      ElementsAre("E0301 /wholly: unknown key 'wholly' (reserved keys: schema, name, notice, seed, "
                  "threads, determinism, python, hooks, device, run, vars, aliases, sweep; every "
                  "other top-level mapping is a stage with a 'kind')"));
}

TEST(SchemaKinds, StageNameMustBeAFileName) {
  EXPECT_THAT(recipe(R"("a b": {"kind": "train.fit"})"),
              ElementsAre("E0312 /a b: the key \"a b\" does not have the required form (At most "
                          "120 letters, digits, '.', '_' and '-', with no leading dot, because the "
                          "name becomes a file name.)"));
  EXPECT_THAT(recipe(R"("../x": {"kind": "train.fit"})"), testing::SizeIs(1));
}

TEST(SchemaKinds, CommonKeysAreAcceptedByEveryStage) {
  EXPECT_THAT(
      recipe(
          R"("train": {"kind": "train.fit", "name": "a", "inputs": {"data": "data.train"}, "foreach": {"a": [1]}})"),
      IsEmpty());
  EXPECT_THAT(
      recipe(
          R"("train": {"kind": "train.fit", "name": ".a", "inputs": {"data": 1}, "foreach": {"a": []}})"),
      ElementsAre(testing::StartsWith("E0307 /train/name: \".a\" does not have the required form"),
                  "E0310 /train/inputs/data: expected a string, or a list; got 1",
                  "E0308 /train/foreach/a: expected at least 1 item, got an empty list"));
}

TEST(SchemaKinds, UnknownStageKeySuggestsCommonKeys) {
  EXPECT_THAT(
      recipe(R"("train": {"kind": "train.fit", "for_each": {}})"),
      ElementsAre("E0301 /train/for_each: unknown key 'for_each' (did you mean 'foreach'?)"));
}

TEST(SchemaKinds, CommonKeysAreRejectedInSubMappings) {
  EXPECT_THAT(
      recipe(R"("train": {"kind": "train.fit", "optimizer": {"kind": "sgd", "inputs": {}}})"),
      ElementsAre("E0301 /train/optimizer/inputs: unknown key 'inputs' (known keys: kind, "
                  "learning_rate, nesterov)"));
}

TEST(SchemaKinds, ForeachItemsAreAcceptedUntilTheyAreFilledIn) {
  EXPECT_THAT(
      recipe(R"("train": {"kind": "train.fit", "foreach": {"n": [1, 2]}, "epochs": "${item.n}",
                         "optimizer": {"kind": "${item.n}", "learning_rate": "1${item.n}"}})"),
      IsEmpty());
  EXPECT_THAT(
      recipe(R"("train": {"kind": "train.fit", "epochs": "${item.n}"})"),
      ElementsAre("E0302 /train/epochs: expected an integer, got the string \"${item.n}\""));
  EXPECT_THAT(
      recipe(R"("train": {"kind": "train.fit", "foreach": {"n": [1, 2]}, "epochs": "${other.n}"})"),
      testing::SizeIs(1));
}

TEST(SchemaKinds, SchemaFileOfAKindAcceptsTheCommonKeys) {
  const SchemaSet schemas = small_schemas();
  Value stage = written(R"({"kind": "train.fit", "name": "a", "epochs": 0})");
  EXPECT_THAT(told(schemas.validate(stage, "train/fit.schema.json")),
              ElementsAre("E0303 /epochs: expected an integer of at least 1 (epochs), got 0"));
}

}  // namespace
}  // namespace runner
