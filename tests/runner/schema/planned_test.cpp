#include "runner/schema/planned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Schemas of a kind that is built and has planned parts, of one that is not built, and of a planned sub-mapping.
SchemaSet schemas() {
  const SchemaTexts texts = schema_texts({
      {"train/fit.schema.json", R"({
        "title": "train.fit", "description": "Fits.", "x-version": 1, "type": "object", "additionalProperties": false,
        "properties": {
          "kind": {"const": "train.fit"},
          "epochs": {"type": "integer", "default": 1, "description": "Passes."},
          "average": {"type": "boolean", "x-planned": true, "default": false, "description": "Of weights."},
          "wait": {"type": "object", "x-planned": true, "default": {}, "additionalProperties": false, "description": "Waits.",
                   "properties": {"minutes": {"type": "integer", "default": 60, "description": "At most."}}},
          "folder": {"$ref": "common.schema.json#/definitions/path", "x-planned": true, "default": "a", "description": "A."},
          "precision": {"anyOf": [{"enum": ["fp32"]}, {"enum": ["bf16", "fp16"], "x-planned": true}],
                        "default": "fp32", "description": "Number format."},
          "device": {"anyOf": [{"type": "string", "pattern": "^(cpu|cuda)$", "examples": ["cpu", "cuda"]},
                               {"const": "auto", "x-planned": true}],
                     "default": "cpu", "description": "Where."},
          "optimizer": {"type": "object", "x-kinds": "train/optimizer", "x-default-kind": "adam", "default": {}, "description": "How."}
        }})"},
      {"train/later.schema.json", R"({
        "title": "train.later", "description": "Later.", "x-planned": true, "type": "object", "additionalProperties": false,
        "properties": {"kind": {"const": "train.later"}, "a": {"type": "integer", "default": 2, "description": "A."}}})"},
      {"train/optimizer/adam.schema.json",
       R"({"title": "train/optimizer/adam", "description": "Adam.", "type": "object",
        "properties": {"kind": {"const": "adam"}}})"},
      {"train/optimizer/lion.schema.json",
       R"({"title": "train/optimizer/lion", "description": "Lion.", "type": "object",
        "x-planned": true, "properties": {"kind": {"const": "lion"}}})"},
  });
  auto loaded = SchemaSet::load(texts.files);
  for (const std::string& line : said(loaded)) ADD_FAILURE() << line;
  return std::move(*loaded);
}

/// What a recipe with that stage uses of what is planned, once it is validated.
std::vector<std::string> uses(const std::string& stage) {
  const SchemaSet set = schemas();
  Value recipe = written(R"({"schema": 1, "train": )" + stage + "}");
  EXPECT_THAT(told(set.validate(recipe)), IsEmpty());
  return told(set.planned_uses(recipe));
}

TEST(Planned, WhatIsBuiltUsesNothing) {
  EXPECT_THAT(uses(R"({"kind": "train.fit", "precision": "fp32", "optimizer": {"kind": "adam"}})"), IsEmpty());
}

TEST(Planned, KindIsNamed) {
  EXPECT_THAT(uses(R"({"kind": "train.later", "a": 3})"),
              ElementsAre("E0313 /train: 'train.later' validates, but this version cannot run it yet"));
}

TEST(Planned, KindOfSubMappingIsNamed) {
  EXPECT_THAT(uses(R"({"kind": "train.fit", "optimizer": {"kind": "lion"}})"),
              ElementsAre("E0313 /train/optimizer: 'lion' validates, but this version cannot run it yet"));
}

TEST(Planned, OptionsAreNamedInTheOrderWritten) {
  EXPECT_THAT(uses(R"({"kind": "train.fit", "folder": "b", "average": true})"),
              ElementsAre("E0313 /train/folder: 'folder' is not built yet (leave it out)",
                          "E0313 /train/average: 'average' is not built yet (leave it out)"));
}

TEST(Planned, OptionThatSaysItsDefaultUsesNothing) {
  EXPECT_THAT(uses(R"({"kind": "train.fit", "average": false, "folder": "a", "wait": {"minutes": 60}})"), IsEmpty());
  EXPECT_THAT(uses(R"({"kind": "train.fit", "wait": {}})"), IsEmpty());
  EXPECT_THAT(uses(R"({"kind": "train.fit", "wait": {"minutes": 61}})"), testing::SizeIs(1));
}

TEST(Planned, AlternativeIsNamedWithThoseThatAreBuilt) {
  EXPECT_THAT(uses(R"({"kind": "train.fit", "precision": "bf16"})"),
              ElementsAre("E0313 /train/precision: 'precision' cannot be \"bf16\" yet: this version has no code for it "
                          "(it takes fp32)"));
  EXPECT_THAT(uses(R"({"kind": "train.fit", "device": "auto"})"),
              ElementsAre("E0313 /train/device: 'device' cannot be \"auto\" yet: this version has no code for it "
                          "(it takes cpu, cuda)"));
}

TEST(Planned, OptionsAreNotFilledInAndTheirDefaultsAreTakenOut) {
  const SchemaSet set = schemas();
  Value recipe = written(R"({"schema": 1, "train": {"kind": "train.fit", "average": false, "folder": "b"}})");
  EXPECT_THAT(told(set.validate(recipe)), IsEmpty());
  EXPECT_EQ(
      to_json(*recipe.find("train")).dump(),
      R"({"kind":"train.fit","folder":"b","epochs":1,"precision":"fp32","device":"cpu","optimizer":{"kind":"adam"}})");
}

TEST(Planned, ItemsOfForeachCountAsWritten) {
  EXPECT_THAT(uses(R"({"kind": "train.fit", "foreach": {"n": [true]}, "average": "${item.n}"})"),
              ElementsAre("E0313 /train/average: 'average' is not built yet (leave it out)"));
}

}  // namespace
}  // namespace runner
