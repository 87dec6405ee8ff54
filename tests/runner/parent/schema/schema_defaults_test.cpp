#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

/// `json` with the defaults of one schema filled in, as JSON, or the errors.
std::string completed(std::string_view schema, const std::string& json) {
  const SchemaFile file{"a.schema.json", schema};
  const auto loaded = SchemaSet::load({&file, 1});
  if (!loaded) return said(loaded).front();
  Value value = written(json);
  const Diagnostics errors = loaded->validate(value, "a.schema.json");
  return errors.empty() ? to_json(value).dump() : told(errors).front();
}

TEST(SchemaDefaults, MissingKeysFollowPresentOnesInSchemaOrder) {
  EXPECT_EQ(
      completed(
          R"({"properties": {"a": {"default": 1}, "b": {"default": 2}, "c": {"default": [3]}, "d": {}}})",
          R"({"b": 0})"),
      R"({"b":0,"a":1,"c":[3]})");
}

TEST(SchemaDefaults, ExplicitNullIsKept) {
  EXPECT_EQ(completed(R"({"properties": {"a": {"default": 1}}})", R"({"a": null})"),
            R"({"a":null})");
}

TEST(SchemaDefaults, NestedMappingsAreFilled) {
  EXPECT_EQ(
      completed(
          R"({"properties": {"a": {"default": {}, "properties": {"b": {"default": {"d": 0}, "properties": {"c": {"default": 1}}}}}}})",
          "{}"),
      R"({"a":{"b":{"d":0,"c":1}}})");
}

TEST(SchemaDefaults, ListsAndPatternsAndAdditionalKeysAreFilled) {
  constexpr auto kItem = R"({"properties": {"a": {"default": 1}}})";
  EXPECT_EQ(completed(std::string(R"({"items": )") + kItem + "}", "[{}, 3]"), R"([{"a":1},3])");
  EXPECT_EQ(completed(std::string(R"({"patternProperties": {"^x": )") + kItem +
                          R"(}, "additionalProperties": {}})",
                      R"({"x": {}, "y": {}})"),
            R"({"x":{"a":1},"y":{}})");
  EXPECT_EQ(completed(std::string(R"({"additionalProperties": )") + kItem + "}", R"({"x": {}})"),
            R"({"x":{"a":1}})");
}

TEST(SchemaDefaults, DefaultNextToAReferenceTakesPrecedence) {
  EXPECT_EQ(completed(R"({"definitions": {"n": {"type": "integer", "default": 1}},
                          "properties": {"a": {"$ref": "#/definitions/n", "default": 2}, "b": {"$ref": "#/definitions/n"}}})",
                      "{}"),
            R"({"a":2,"b":1})");
}

TEST(SchemaDefaults, OnlyTheMatchingAlternativeProvidesDefaults) {
  constexpr auto kSchema = R"({"anyOf": [
      {"required": ["a"], "properties": {"a": {"const": 1}, "b": {"default": "of a"}}},
      {"properties": {"a": {"default": 1}, "c": {"default": "of c"}}}]})";
  EXPECT_EQ(completed(kSchema, R"({"a": 1})"), R"({"a":1,"b":"of a"})");
  EXPECT_EQ(completed(kSchema, "{}"), R"({"a":1,"c":"of c"})");
}

TEST(SchemaDefaults, AllPartsProvideTheirDefaults) {
  EXPECT_EQ(
      completed(
          R"({"allOf": [{"properties": {"a": {"default": 1}}}, {"properties": {"a": {"default": 3}, "b": {"default": 2}}}]})",
          "{}"),
      R"({"a":1,"b":2})");
}

TEST(SchemaDefaults, IntegralNumbersBecomeIntegersIfTheSchemaRequiresThem) {
  EXPECT_EQ(
      completed(
          R"({"properties": {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"const": 1},
                          "d": {"anyOf": [{"const": null}, {"type": "integer"}]}}})",
          R"({"a": 2.0, "b": 2.0, "c": 1.0, "d": 3.0})"),
      R"({"a":2,"b":2.0,"c":1,"d":3})");
}

TEST(SchemaDefaults, DefaultsAreNotFilledInOnErrors) {
  const SchemaFile file{"a.schema.json",
                        R"({"properties": {"a": {"default": 1}, "b": {"type": "null"}}})"};
  Value value = written(R"({"b": 0})");
  EXPECT_EQ(SchemaSet::load({&file, 1})->validate(value, "a.schema.json").size(), 1u);
  EXPECT_EQ(to_json(value).dump(), R"({"b":0})");
}

TEST(SchemaDefaults, MissingKeysOfARecipeAreFilledIn) {
  SourceText source{"a.yaml", ""};
  const SchemaSet schemas = small_schemas();
  Value value = written(
      R"({"schema": 1, "train": {"kind": "train.fit", "optimizer": {"learning_rate": 1}}, "data": {"kind": "data.folder", "root": "r"}})",
      source);
  EXPECT_THAT(told(schemas.validate(value)), testing::IsEmpty());
  EXPECT_EQ(
      to_json(value).dump(),
      R"({"schema":1,"train":{"kind":"train.fit","optimizer":{"learning_rate":1,"kind":"adam","betas":[0.9,0.999]},)"
      R"("epochs":10,"micro_batch":"auto"},"data":{"kind":"data.folder","root":"r","size":96},)"
      R"("name":"run","seed":0,"threads":"auto","determinism":"strict",)"
      R"("device":{"select":"cpu","count":1,"collective_timeout_seconds":1800,"exclude":[],)"
      R"("min_gpu_memory_mb":"auto",)"
      R"("wait_for_gpu":false,)"
      R"("wait_timeout_minutes":60,"check_interval_seconds":30,"fallback":[]},"run":{"dir":null,"only":null,"tensorboard":false,"mlflow":false}})");
  EXPECT_EQ(value.find("train")->find("epochs")->where.line, 3);
  EXPECT_EQ(value.find("train")->find("optimizer")->find("betas")->list()->front().where.line, 5);
  EXPECT_EQ(value.find("device")->find("select")->where.line, 1);
  EXPECT_EQ(value.find("run")->map()->front().key_where.line, 1);
  EXPECT_TRUE(value.find("train")->find("epochs")->is_default);
  EXPECT_TRUE(value.find("train")->find("optimizer")->find("kind")->is_default);
  EXPECT_FALSE(value.find("train")->find("optimizer")->find("learning_rate")->is_default);
}

TEST(SchemaDefaults, FillingInTwiceChangesNothing) {
  const SchemaSet schemas = small_schemas();
  Value once = written(R"({"schema": 1, "train": {"kind": "train.fit"}})");
  EXPECT_THAT(told(schemas.validate(once)), testing::IsEmpty());
  Value twice = once;
  EXPECT_THAT(told(schemas.validate(twice)), testing::IsEmpty());
  EXPECT_EQ(to_json(once).dump(), to_json(twice).dump());
}

/// The default of a key as JSON, or "-" if it is not declared.
std::string declared(const std::string& recipe, const std::vector<std::string>& path) {
  const auto found = small_schemas().declared(written(recipe), path);
  return found ? to_json(*found).dump() : "-";
}

constexpr auto kRecipe =
    R"({"train": {"kind": "train.fit", "optimizer": {"kind": "sgd"}}, "other": {"kind": "train.fit"}, "vars": {"a": 1}})";

TEST(SchemaDeclared, ReservedKeysHaveDefaults) {
  EXPECT_EQ(declared(kRecipe, {"seed"}), "0");
  EXPECT_EQ(
      declared(kRecipe, {"device"}),
      R"({"select":"cpu","count":1,"collective_timeout_seconds":1800,"exclude":[],)"
      R"("min_gpu_memory_mb":"auto",)"
      R"("wait_for_gpu":false,"wait_timeout_minutes":60,"check_interval_seconds":30,"fallback":[]})");
  EXPECT_EQ(declared(kRecipe, {"device", "select"}), R"("cpu")");
  EXPECT_EQ(declared(kRecipe, {"run", "dir"}), "null");
  EXPECT_EQ(declared(kRecipe, {"schema"}), "null");
}

TEST(SchemaDeclared, KeysOfTheChosenKindAreDeclared) {
  EXPECT_EQ(declared(kRecipe, {"train", "epochs"}), "10");
  EXPECT_EQ(declared(kRecipe, {"train", "inputs"}), "null");
  EXPECT_EQ(declared(kRecipe, {"train", "inputs", "data"}), "-");
  EXPECT_EQ(declared(kRecipe, {"train", "epoch"}), "-");
  EXPECT_EQ(declared(kRecipe, {"train", "epochs", "deeper"}), "-");
}

TEST(SchemaDeclared, KindsWithinKindsAreDeclared) {
  EXPECT_EQ(declared(kRecipe, {"train", "optimizer", "nesterov"}), "false");
  EXPECT_EQ(declared(kRecipe, {"train", "optimizer", "betas"}), "-");
  EXPECT_EQ(declared(kRecipe, {"other", "optimizer", "betas"}), "[0.9,0.999]");
  EXPECT_EQ(declared(kRecipe, {"other", "optimizer", "kind"}), R"("adam")");
  EXPECT_EQ(declared(kRecipe, {"other", "optimizer"}),
            R"({"kind":"adam","learning_rate":0.001,"betas":[0.9,0.999]})");
}

TEST(SchemaDeclared, StagesAndFreeKeysAreNotDeclared) {
  EXPECT_EQ(declared(kRecipe, {"train"}), "-");
  EXPECT_EQ(declared(kRecipe, {"missing", "epochs"}), "-");
  EXPECT_EQ(declared(kRecipe, {"vars", "a"}), "-");
  EXPECT_EQ(declared(kRecipe, {"aliases", "lr"}), "-");
  EXPECT_EQ(declared(kRecipe, {}), "-");
  EXPECT_EQ(declared(R"({"train": {"kind": "train.unknown"}})", {"train", "epochs"}), "-");
  EXPECT_EQ(declared(R"([])", {"train", "epochs"}), "-");
}

/// What the schemas report about the key at `path` of kRecipe.
struct Told {
  std::vector<std::string> keys, kinds;
  bool may_add;
};
Told told_of(const std::vector<std::string>& path) {
  const SchemaSet schemas = small_schemas();
  const RecipeKeys& keys = schemas;
  const Value recipe = written(kRecipe);
  return {keys.declared_keys(recipe, path), keys.other_kinds(recipe, path),
          keys.may_add(recipe, path)};
}

TEST(SchemaDeclared, KeysOfAnotherKindAreFoundWithThatKind) {
  EXPECT_THAT(told_of({"train", "optimizer", "betas"}).kinds, testing::ElementsAre("adam"));
  EXPECT_THAT(told_of({"other", "optimizer", "betas"}).kinds, testing::IsEmpty());
  EXPECT_THAT(
      told_of({"train", "optimizer"}).keys,
      testing::AllOf(testing::Contains("nesterov"), testing::Not(testing::Contains("betas"))));
}

TEST(SchemaDeclared, ValuesMayBeAddedWhereTheSchemaAllowsThem) {
  EXPECT_TRUE(told_of({"vars", "b"}).may_add);
  EXPECT_TRUE(told_of({"train", "epochs"}).may_add);
  EXPECT_FALSE(told_of({"train", "nosuch"}).may_add);
  EXPECT_FALSE(told_of({"train", "optimizer"}).may_add);  // a mapping
}

TEST(SchemaDeclared, DeviceKeysHaveThePublishedAlternativeNames) {
  std::vector<std::string> names;
  for (const OtherName& name : SchemaSet::open(embedded_schemas()).other_names())
    names.push_back(name.mapping + "." + name.other + " " + name.own);
  EXPECT_THAT(names,
              testing::ElementsAre("device.gpu_wait_timeout_minutes wait_timeout_minutes",
                                   "device.gpu_check_interval_seconds check_interval_seconds"));
}

}  // namespace
}  // namespace runner
