#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

TEST(Schemas, AllShippedSchemasLoad) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  if (schemas) return;
  for (const Diagnostic& error : schemas.errors())
    ADD_FAILURE() << error.pointer << ": " << error.message;
}

/// The description of the option itself, or of the definition that it refers to.
std::string description(const Json& property) {
  if (property.contains("description") || !property.contains("$ref"))
    return property.value("description", "");
  const std::string address = property["$ref"];
  const auto hash = address.find('#');
  const auto file =
      std::ranges::find(embedded_schemas(), address.substr(0, hash), &SchemaFile::path);
  return description(Json::parse(file->text).at(Json::json_pointer(address.substr(hash + 1))));
}

/// Checks the properties of `schema`, and of mappings within it.
void check_properties(const Json& schema, const std::string& where) {
  const Json required = schema.value("required", Json::array());
  if (!schema.contains("properties")) return;
  for (const auto& [key, property] : schema["properties"].items()) {
    const std::string name = where + "/" + key;
    check_properties(property, name);
    if (key == "kind") continue;
    EXPECT_FALSE(description(property).empty()) << name << " has no description";
    const bool is_required = std::find(required.begin(), required.end(), key) != required.end();
    EXPECT_NE(property.contains("default"), is_required)
        << name << " must have a default or be required, and not both";
    if (property.contains("$ref")) continue;
    EXPECT_TRUE(property.contains("type") || property.contains("enum") ||
                property.contains("const") || property.contains("anyOf") ||
                property.contains("oneOf"))
        << name << " has no type";
  }
}

/// Keywords next to a $ref have no effect, except those that our validator reads there.
void check_references(const Json& json, const std::string& where) {
  if (json.is_object() && json.contains("$ref")) {
    for (const auto& [key, value] : json.items()) {
      EXPECT_TRUE(key == "$ref" || key == "description" || key == "default" || key == "x-unit" ||
                  key == "x-resume" || key == "x-file" || key == "x-effective-when" ||
                  key == "$comment")
          << where << ": '" << key << "' next to $ref has no effect";
    }
  }
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) check_references(value, where + "/" + key);
}

TEST(Schemas, EveryOptionIsDescribedAndHasADefaultOrIsRequired) {
  for (const SchemaFile& file : embedded_schemas()) {
    const Json json = Json::parse(file.text);
    if (file.path.find('/') != file.path.npos) check_properties(json, std::string(file.path));
    const Json definitions = json.value("definitions", Json::object());
    for (const auto& [name, shared] : definitions.items())
      if (file.path != "common.schema.json" || name == "device")
        check_properties(shared, std::string(file.path));
  }
}

TEST(Schemas, KeywordsNextToAReferenceHaveAnEffect) {
  for (const SchemaFile& file : embedded_schemas())
    check_references(Json::parse(file.text), std::string(file.path));
}

TEST(Schemas, EveryFileNamesItselfAndItsLanguage) {
  for (const SchemaFile& file : embedded_schemas()) {
    const Json json = Json::parse(file.text);
    EXPECT_EQ(json.value("$schema", ""), "http://json-schema.org/draft-07/schema#") << file.path;
    EXPECT_EQ(json.value("$id", ""), file.path);
    EXPECT_FALSE(json.value("description", "").empty()) << file.path;
  }
}

TEST(Schemas, EveryKindIsClosedAndVersioned) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  for (const Kind& kind : schemas->kinds()) {
    const Json& json = *schemas->document(kind.name);
    EXPECT_EQ(json.value("additionalProperties", Json()), false) << kind.name;
    for (const char* key : {"x-version", "x-outputs"})
      EXPECT_TRUE(json.contains(key)) << kind.name << " " << key;
    EXPECT_FALSE(kind.outputs.empty()) << kind.name;
  }
}

/// Runs that differ only in their seed must be tested on the same images.
TEST(Schemas, SplitDoesNotDependOnTheRunSeed) {
  std::size_t divided = 0;
  for (const SchemaFile& file : embedded_schemas()) {
    if (!file.path.starts_with("data/")) continue;
    const Json properties = Json::parse(file.text).value("properties", Json::object());
    for (const char* seed : {"/split/properties/seed", "/split_seed"}) {
      const Json::json_pointer place(seed);
      if (!properties.contains(place)) continue;
      EXPECT_EQ(properties[place].value("default", Json()), 0) << file.path;
      ++divided;
    }
  }
  EXPECT_GE(divided, 5u);
}

TEST(Schemas, TrainAndEvaluateKindsDeclareTheirMetrics) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  for (const Kind& kind : schemas->kinds()) {
    if (kind.name == "train.none") continue;  // trains nothing
    EXPECT_EQ(kind.metrics.empty(), kind.family != "train" && kind.family != "evaluate")
        << kind.name;
  }
  const auto validated = [&](const Kind& kind, const std::string& score) {
    return std::ranges::any_of(kind.metrics, [&](const DeclaredMetric& metric) {
      return metric.covers("validation/" + score);
    });
  };
  for (const Kind& kind : schemas->kinds()) {
    if (kind.family != "train") continue;
    const Json& properties = schemas->document(kind.name)->at("properties");
    if (!properties.contains("monitor")) continue;  // it has no epochs
    const Json& monitor = properties.at("monitor");
    for (const Json& score : monitor.value("enum", Json::array()))
      EXPECT_TRUE(validated(kind, score)) << kind.name << " monitors " << score;
  }
}

TEST(DeclaredMetrics, StarMatchesAnyStringAndHashMatchesANumber) {
  const DeclaredMetric of_class{"evaluate/auc/*"}, ranked{"evaluate/top#"},
      plain{"validation/loss"};
  EXPECT_TRUE(of_class.covers("evaluate/auc/3"));
  EXPECT_FALSE(of_class.covers("evaluate/auc/"));
  EXPECT_TRUE(ranked.covers("evaluate/top5"));
  EXPECT_TRUE(ranked.covers("evaluate/top10"));
  for (const char* other : {"evaluate/to", "evaluate/top", "evaluate/top5l", "evaluate/top1_low"})
    EXPECT_FALSE(ranked.covers(other)) << other;
  EXPECT_TRUE(plain.covers("validation/loss"));
  EXPECT_FALSE(plain.covers("validation/losses"));
}

}  // namespace
}  // namespace runner
