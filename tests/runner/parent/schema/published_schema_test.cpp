#include "runner/parent/schema/published_schema.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Checks that every $ref refers to a definition in the document and that none of our keywords is
/// left.
void expect_self_contained(const Json& json, const Json& document, bool is_names = false) {
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    if (json.is_object() && !is_names) {
      EXPECT_FALSE(key.starts_with("x-")) << key;
      if (key == "$ref") {
        ASSERT_TRUE(value.get<std::string>().starts_with("#/definitions/")) << value;
        EXPECT_TRUE(document["definitions"].contains(value.get<std::string>().substr(14))) << value;
      }
    }
    expect_self_contained(value, document, key == "properties" || key == "definitions");
  }
}

TEST(PublishedSchema, PublishedSchemasAreSelfContained) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  std::vector<std::string> names = {"recipe"};
  for (const Kind& kind : schemas->kinds()) names.push_back(kind.name);
  for (const std::string& folder : schemas->sub_kind_folders()) {
    for (const std::string& kind : schemas->sub_kinds(folder)) names.push_back(folder + "/" + kind);
  }
  EXPECT_TRUE(std::ranges::count(names, "train/optimizer/adamw"));
  for (const std::string& name : names) {
    const auto published = published_schema(*schemas, name);
    ASSERT_TRUE(published) << name;
    expect_self_contained(*published, *published);
    EXPECT_EQ((*published)["title"], name);
  }
}

TEST(PublishedSchema, SharedRulesOfKindsAreLeftOut) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  const auto published = published_schema(*schemas, "train.supervised");
  ASSERT_TRUE(published);
  EXPECT_FALSE(published->contains("allOf"));
  EXPECT_FALSE((*published)["definitions"].contains("training"));
  EXPECT_EQ((*published_schema(*schemas, "train.episodic"))["allOf"].size(), 1u)
      << "this is not one of our own keywords";
}

TEST(PublishedSchema, UnitIsAddedToADescriptionWithoutIt) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  const auto published = published_schema(*schemas, "train.supervised");
  ASSERT_TRUE(published);
  const Json& properties = (*published)["properties"];
  EXPECT_EQ(properties["epochs"]["description"], "Passes over the training data. Unit: epochs.");
  EXPECT_EQ(properties["batch_size"]["description"],
            "Samples per optimizer step, regardless of the micro-batch size.");
}

TEST(PublishedSchema, PublishedKindHasTheCommonKeysAndItsSubKinds) {
  const SchemaSet schemas = small_schemas();
  const auto published = published_schema(schemas, "train.fit");
  ASSERT_TRUE(published);
  const Json& properties = (*published)["properties"];
  EXPECT_EQ(properties["kind"].dump(), R"({"const":"train.fit"})");
  EXPECT_EQ(
      properties["name"].dump(),
      R"({"description":"The stage's name, for interpolations such as ${model.name}.","allOf":[{"$ref":"#/definitions/name"}]})");
  EXPECT_EQ(properties["epochs"]["description"], "Passes. Unit: epochs.");
  EXPECT_EQ(properties["optimizer"]["properties"].dump(),
            R"({"kind":{"enum":["adam","sgd"],"default":"adam"}})");
  EXPECT_EQ(
      properties["optimizer"]["allOf"].dump(),
      R"([{"if":{"properties":{"kind":{"const":"adam"}}},"then":{"$ref":"#/definitions/train.optimizer.adam"}},)"
      R"({"if":{"properties":{"kind":{"const":"sgd"}},"required":["kind"]},"then":{"$ref":"#/definitions/train.optimizer.sgd"}}])");
  EXPECT_EQ((*published)["definitions"]["train.optimizer.sgd"]["properties"]["nesterov"]["default"],
            false);
}

TEST(PublishedSchema, PublishedRecipeChoosesByKind) {
  const SchemaSet schemas = small_schemas();
  const auto published = published_schema(schemas, "recipe");
  ASSERT_TRUE(published);
  EXPECT_EQ((*published)["additionalProperties"]["properties"]["kind"].dump(),
            R"({"enum":["data.folder","train.fit"]})");
  EXPECT_TRUE((*published)["definitions"]["train.fit"]["properties"].contains("foreach"));
}

TEST(PublishedSchema, UnknownKindSuggestsTheNearestKind) {
  const SchemaSet schemas = small_schemas();
  const auto help = [&](const std::string& name) {
    const auto published = published_schema(schemas, name);
    return published ? "known" : told(published.errors()).front();
  };
  EXPECT_EQ(help("train.fitt"), "E0306 : unknown kind 'train.fitt' (did you mean 'train.fit'?)");
  EXPECT_EQ(help("train/optimizer/adm"),
            "E0306 : unknown kind 'train/optimizer/adm' (did you mean 'train/optimizer/adam'?)");
  EXPECT_EQ(help("zzz"),
            "E0306 : unknown kind 'zzz' (available: recipe, data.folder, train.fit, "
            "sweep/launcher/kubernetes, sweep/launcher/slurm, train/optimizer/adam, "
            "train/optimizer/sgd)");
}

}  // namespace
}  // namespace runner
