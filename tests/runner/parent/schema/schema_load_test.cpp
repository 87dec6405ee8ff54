#include "runner/parent/schema/schema.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/schema/schema_node.h"
#include "tests/support/python_schemas.h"
#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Returns "pointer: message" for each error in one schema.
std::vector<std::string> refused(std::string_view text, std::string_view path = "a.schema.json") {
  const SchemaFile file{path, text};
  return said(SchemaSet::load({&file, 1}));
}

TEST(SchemaLoad, UnknownKeywordIsRejectedWithFileAndPointer) {
  EXPECT_THAT(refused(R"({"properties": {"a/b": {"minimun": 1}}})"),
              ElementsAre("/properties/a~1b/minimun: schemas/a.schema.json: the validator does not "
                          "support the keyword 'minimun'"));
}

TEST(SchemaLoad, EveryMistakeIsReported) {
  EXPECT_THAT(
      refused(R"({"if": {}, "required": ["a", "a"], "items": 3, "anyOf": [], "minLength": -1})"),
      testing::SizeIs(5));
}

TEST(SchemaLoad, KeywordOfWrongTypeIsRejected) {
  EXPECT_THAT(
      refused(R"({"type": "float"})"),
      ElementsAre(
          "/type: schemas/a.schema.json: 'type' must be a type or a list of different types"));
  EXPECT_THAT(
      refused(R"({"pattern": "("})"),
      ElementsAre("/pattern: schemas/a.schema.json: 'pattern' must be a regular expression"));
  EXPECT_THAT(
      refused(R"({"multipleOf": 0})"),
      ElementsAre("/multipleOf: schemas/a.schema.json: 'multipleOf' must be a number above 0"));
}

TEST(SchemaLoad, DanglingReferenceIsRejected) {
  EXPECT_THAT(
      refused(R"({"properties": {"a": {"$ref": "#/definitions/b"}}})"),
      ElementsAre(
          "/properties/a/$ref: schemas/a.schema.json: there is no schema at '#/definitions/b'"));
  EXPECT_THAT(refused(R"({"$ref": "b.schema.json"})"),
              ElementsAre("/$ref: schemas/a.schema.json: there is no schema at 'b.schema.json'"));
  EXPECT_THAT(refused(R"({"$ref": "#/%zz"})"),
              ElementsAre("/$ref: schemas/a.schema.json: there is no schema at '#/%zz'"));
}

TEST(SchemaLoad, CyclesAreRejected) {
  EXPECT_THAT(refused(R"({"$ref": "#"})"),
              ElementsAre(": schemas/a.schema.json: $ref refers to itself"));
  EXPECT_THAT(refused(R"({"allOf": [{"$ref": "#"}]})"),
              ElementsAre(": schemas/a.schema.json: the schema refers to itself endlessly"));
  EXPECT_THAT(refused(R"({"properties": {"a": {"$ref": "#", "default": {}}}})"),
              ElementsAre(": schemas/a.schema.json: the schema refers to itself endlessly"));
  EXPECT_THAT(refused(R"({"properties": {"a": {"$ref": "#"}}})"), IsEmpty());
}

TEST(SchemaLoad, AlternativeNamesOutsideARecipeAreRejected) {
  constexpr auto kKey = R"({"properties": {"a": {"properties": {"b": {"x-other-names": ["c"]}}}}})";
  EXPECT_THAT(refused(kKey, "recipe.schema.json"), IsEmpty());
  EXPECT_THAT(refused(kKey), ElementsAre("/properties/a/properties/b/x-other-names: "
                                         "schemas/a.schema.json: only keys of a recipe's own "
                                         "mappings can have other names"));
}

TEST(SchemaLoad, InvalidDefaultIsRejected) {
  EXPECT_THAT(refused(R"({"properties": {"a": {"type": "integer", "minimum": 1, "default": 0}}})"),
              ElementsAre("/properties/a/default: schemas/a.schema.json: the default is not valid: "
                          "expected an integer of at least 1, got 0"));
}

TEST(SchemaLoad, DuplicateKeyIsRejected) {
  EXPECT_THAT(
      refused(R"({"type": "object", "type": "string"})"),
      ElementsAre(
          ": schemas/a.schema.json: parse error at line 1, column 20: key 'type' appears twice"));
}

TEST(SchemaLoad, BrokenJsonIsRejected) {
  EXPECT_THAT(refused("{"), ElementsAre(testing::HasSubstr("parse error at line 1")));
  EXPECT_THAT(refused("3"),
              ElementsAre(": schemas/a.schema.json: a schema must be a mapping, true or false"));
}

TEST(SchemaLoad, IdMustBeTheFileName) {
  EXPECT_THAT(refused(R"({"$id": "b.schema.json"})"),
              ElementsAre("/$id: schemas/a.schema.json: $id must be 'a.schema.json'"));
  EXPECT_THAT(refused(R"({"$id": "a.schema.json"})"), IsEmpty());
}

TEST(SchemaLoad, KindFolderWithoutFilesIsRejected) {
  EXPECT_THAT(
      refused(R"({"x-kinds": "train/optimizer"})"),
      ElementsAre(
          "/x-kinds: schemas/a.schema.json: there is no schema in the folder 'train/optimizer'"));
}

TEST(SchemaLoad, KindTitleIsItsPath) {
  EXPECT_THAT(said(SchemaSet::load(
                  schema_texts({{"train/fit.schema.json", R"({"title": "train.fat"})"}}).files)),
              ElementsAre("/title: schemas/train/fit.schema.json: the title must be 'train.fit'"));
}

TEST(SchemaLoad, UnknownPortTypeIsRejected) {
  EXPECT_THAT(
      said(SchemaSet::load(
          schema_texts({{"train/fit.schema.json", R"({"title": "train.fit", "description": "Fits.",
      "x-inputs": {"data": "datasets", "m": {"type": "model", "optional": 1}}, "x-outputs": {"out": {"type": "model", "many": true}},
      "type": "object", "properties": {"kind": {"const": "train.fit"}}})"}})
              .files)),
      ElementsAre(
          "/x-inputs/data: schemas/train/fit.schema.json: no artifact has the type \"datasets\"",
          "/x-inputs/m: schemas/train/fit.schema.json: a port does not accept 'optional' here",
          "/x-outputs/out: schemas/train/fit.schema.json: a port does not accept 'many' here"));
}

TEST(SchemaLoad, KindHasPortsVersionAndSummary) {
  const SchemaSet schemas = small_schemas();
  const Kind* kind = schemas.kind("train.fit");
  ASSERT_TRUE(kind);
  EXPECT_EQ(kind->family, "train");
  EXPECT_EQ(kind->summary, "Fits a model.");
  EXPECT_EQ(kind->version, 3);
  ASSERT_EQ(kind->inputs.size(), 2u);
  EXPECT_EQ(kind->inputs[0].name, "data");
  EXPECT_EQ(kind->inputs[0].type, ArtifactType::kDataset);
  EXPECT_TRUE(kind->inputs[1].optional);
  EXPECT_TRUE(kind->inputs[1].many);
  EXPECT_EQ(kind->outputs[0].type, ArtifactType::kCheckpoint);
  EXPECT_TRUE(kind->cacheable);
  EXPECT_EQ(kind->file, "train/fit.schema.json");
}

TEST(SchemaLoad, KindThatRunsPythonHasAnEntry) {
  EXPECT_TRUE(python_schemas().kind("model.code")->runs_python());
  EXPECT_FALSE(python_schemas().kind("model.plain")->runs_python());
  EXPECT_THAT(
      said(SchemaSet::load(schema_texts({{"model/code.schema.json",
                                          R"({"title": "model.code", "description": "Makes.",
            "x-python": ["entry", "tokenizer/entry"], "type": "object", "additionalProperties": false,
            "properties": {"kind": {"const": "model.code"}, "entry": {"type": "string", "description": "Code."},
              "tokenizer": {"anyOf": [{"const": null}, {"type": "object", "additionalProperties": false,
                "properties": {"merges": {"type": "string", "description": "A file."}}}],
                "description": "Reads texts."}}, "required": ["entry", "tokenizer"]})"}})
                               .files)),
      ElementsAre(
          "/x-python: schemas/model/code.schema.json: there is no option 'tokenizer/entry'"));
}

TEST(SchemaLoad, KindsAreSortedWithoutSubKinds) {
  std::vector<std::string> names;
  const SchemaSet schemas = small_schemas();
  for (const Kind& kind : schemas.kinds()) names.push_back(kind.name);
  EXPECT_THAT(names, ElementsAre("data.folder", "train.fit"));
  EXPECT_EQ(schemas.kind("train.adam"), nullptr);
  EXPECT_EQ(schemas.nearest_kind("train.fitt"), "train.fit");
  EXPECT_EQ(schemas.nearest_kind("qqqqqqqqqqq"), "");
}

TEST(SchemaLoad, OpenedFilesAreReadOnDemand) {
  const SchemaTexts texts = schema_texts({
      {"train/broken.schema.json", R"({"title": )"},
      {"train/fit.schema.json", R"({"title": "train.fit", "description": "Fits.", "type": "object",
        "additionalProperties": false, "properties": {
          "kind": {"const": "train.fit"},
          "optimizer": {"type": "object", "x-kinds": "train/optimizer", "x-default-kind": "sgd", "default": {}}}})"},
      {"train/optimizer/broken.schema.json", R"({"title": )"},
      {"train/optimizer/sgd.schema.json", R"({"title": "train/optimizer/sgd", "type": "object",
        "additionalProperties": false, "properties": {"kind": {"const": "sgd"}, "rate": {"default": 0.5}}})"},
  });
  const SchemaSet schemas = SchemaSet::open(texts.files);
  Value recipe = written(R"({"schema": 1, "train": {"kind": "train.fit"}})");
  EXPECT_THAT(told(schemas.validate(recipe)), IsEmpty());
  EXPECT_EQ(std::get<double>(recipe.find("train")->find("optimizer")->find("rate")->data), 0.5);
  EXPECT_EQ(schemas.kind("train.fit")->summary, "Fits.");
  EXPECT_THAT(schemas.sub_kinds("train/optimizer"), ElementsAre("broken", "sgd"));
  EXPECT_EQ(schemas.nearest_kind("train.brokn"), "train.broken");
  EXPECT_TRUE(schemas.node("train/fit.schema.json")->common);
  EXPECT_THROW(schemas.kind("train.broken"), std::logic_error);
  EXPECT_THROW(schemas.document("train/optimizer/broken"), std::logic_error);
}

TEST(SchemaLoad, OpenedSchemasEqualLoadedOnes) {
  const auto loaded = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(loaded);
  const SchemaSet opened = SchemaSet::open(embedded_schemas());
  ASSERT_EQ(opened.kinds().size(), loaded->kinds().size());
  for (std::size_t i = 0; i < opened.kinds().size(); ++i) {
    EXPECT_EQ(opened.kinds()[i].name, loaded->kinds()[i].name);
    EXPECT_EQ(opened.kinds()[i].inputs.size(), loaded->kinds()[i].inputs.size());
    EXPECT_EQ(*opened.document(opened.kinds()[i].name), *loaded->document(opened.kinds()[i].name));
  }
  EXPECT_EQ(opened.sub_kind_folders(), loaded->sub_kind_folders());
}

TEST(SchemaLoad, DocumentIsFoundByKindAndName) {
  const SchemaSet schemas = small_schemas();
  EXPECT_TRUE(schemas.document("recipe"));
  EXPECT_TRUE(schemas.document("train.fit"));
  EXPECT_EQ(schemas.document("train.fat"), nullptr);
}

}  // namespace
}  // namespace runner
