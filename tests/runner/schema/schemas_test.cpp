#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/schema/schema.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

TEST(Schemas, AllThatAreShippedLoad) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  if (schemas) return;
  for (const Diagnostic& error : schemas.errors()) ADD_FAILURE() << error.pointer << ": " << error.message;
}

/// Of the option itself, or of what it refers to.
std::string description(const Json& property) {
  if (property.contains("description") || !property.contains("$ref")) return property.value("description", "");
  const std::string address = property["$ref"];
  const auto hash = address.find('#');
  const auto file = std::ranges::find(embedded_schemas(), address.substr(0, hash), &SchemaFile::path);
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
    EXPECT_NE(property.contains("default"), is_required) << name << " must have a default or be required, and not both";
    if (property.contains("$ref")) continue;
    EXPECT_TRUE(property.contains("type") || property.contains("enum") || property.contains("const") ||
                property.contains("anyOf") || property.contains("oneOf"))
        << name << " has no type";
  }
}

/// What is beside a $ref has no effect, except for what our validator reads there.
void check_references(const Json& json, const std::string& where) {
  if (json.is_object() && json.contains("$ref")) {
    for (const auto& [key, value] : json.items()) {
      EXPECT_TRUE(key == "$ref" || key == "description" || key == "default" || key == "x-unit" || key == "x-resume" ||
                  key == "$comment")
          << where << ": '" << key << "' beside $ref has no effect";
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
      if (file.path != "common.schema.json" || name == "device") check_properties(shared, std::string(file.path));
  }
}

TEST(Schemas, NothingBesideAReferenceIsWithoutEffect) {
  for (const SchemaFile& file : embedded_schemas()) check_references(Json::parse(file.text), std::string(file.path));
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
    for (const char* key : {"x-version", "x-outputs"}) EXPECT_TRUE(json.contains(key)) << kind.name << " " << key;
    EXPECT_FALSE(kind.outputs.empty()) << kind.name;
  }
}

}  // namespace
}  // namespace runner
