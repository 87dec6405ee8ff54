#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/schema/kind_listing.h"
#include "runner/schema/kind_reader.h"
#include "runner/suggest.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kEnding = ".schema.json";

/// Gathers what one document refers to into its `definitions`, under names without slashes.
class Publication {
 public:
  explicit Publication(const SchemaSet& schemas) : schemas_(schemas) {}

  /// The schema with references made local and our own keywords replaced or left out.
  Json published(const Json& schema, const std::string& file) {
    if (!schema.is_object()) return schema;
    Json result = Json::object();
    for (const auto& [key, value] : schema.items()) {
      if (key == "properties" || key == "patternProperties") {
        result[key] = Json::object();
        for (const auto& [name, part] : value.items()) result[key][name] = published(part, file);
      } else if (key == "anyOf" || key == "oneOf" || key == "allOf" || (key == "items" && value.is_array())) {
        result[key] = Json::array();
        for (const Json& part : value) result[key].push_back(published(part, file));
      } else if (key == "items" || key == "additionalProperties" || key == "propertyNames" || key == "not") {
        result[key] = published(value, file);
      } else if (key != "$ref" && key != "$id" && key != "$schema" && key != "definitions" && !key.starts_with("x-")) {
        result[key] = value;
      }
    }
    if (schema.contains("x-unit") && schema.contains("description")) {
      result["description"] =
          schema["description"].get<std::string>() + " In " + schema["x-unit"].get<std::string>() + ".";
    }
    // Beside a $ref an editor reads nothing, hence the list of one.
    if (schema.contains("$ref")) result["allOf"] = Json::array({{{"$ref", local(schema["$ref"], file)}}});
    if (schema.contains("x-kinds")) add_kinds(result, schema);
    return result;
  }

  /// A stage's options with what every stage understands.
  Json stage(const std::string& file) {
    Json result = published(*document(file), file);
    const Json& common = document("common.schema.json")->at("definitions").at("stage").at("properties");
    for (const auto& [key, property] : common.items()) {
      if (!result["properties"].contains(key)) result["properties"][key] = published(property, "common.schema.json");
    }
    return result;
  }

  Json take_definitions() { return std::move(definitions_); }

 private:
  const Json* document(const std::string& file) const {
    const std::string stem = file.substr(0, file.size() - kEnding.size());
    return schemas_.document(is_stage_kind(file) ? title_of(file) : stem);
  }

  /// "#/definitions/name" for a reference that `file` makes; what it names is published there.
  std::string local(const std::string& reference, const std::string& file) {
    const auto hash = std::min(reference.find('#'), reference.size());
    const std::string target = hash == 0 ? file : reference.substr(0, hash);
    const std::string pointer = reference.substr(std::min(hash + 1, reference.size()));
    std::string name = pointer.starts_with("/definitions/")
                           ? pointer.substr(13)
                           : target.substr(0, target.size() - kEnding.size()) + pointer;
    std::ranges::replace(name, '/', '.');
    if (target != "common.schema.json" && pointer.starts_with("/definitions/")) name = title_of(target) + "." + name;
    define(name, [&] { return published(document(target)->at(Json::json_pointer(pointer)), target); });
    return "#/definitions/" + name;
  }

  template <typename Make>
  void define(const std::string& name, const Make& make) {
    if (definitions_.contains(name)) return;
    definitions_[name] = nullptr;  // a schema may lead back to itself
    Json made = make();
    definitions_[name] = std::move(made);
  }

  /// A choice of `kind`, and for each what else there is then.
  void add_kinds(Json& result, const Json& schema) {
    const std::string folder = schema["x-kinds"];
    const std::string preferred = schema.value("x-default-kind", "");
    Json names = Json::array(), rules = Json::array();
    for (const std::string& file : files_in(folder)) {
      const Json& kind = document(file)->at("properties").at("kind").at("const");
      std::string definition = file.substr(0, file.size() - kEnding.size());
      std::ranges::replace(definition, '/', '.');
      define(definition, [&] { return folder == "*" ? stage(file) : published(*document(file), file); });
      Json condition = {{"properties", {{"kind", {{"const", kind}}}}}};
      if (kind != preferred) condition["required"] = Json::array({"kind"});
      rules.push_back({{"if", std::move(condition)}, {"then", {{"$ref", "#/definitions/" + definition}}}});
      names.push_back(kind);
    }
    Json kind = {{"enum", std::move(names)}};
    if (!preferred.empty()) kind["default"] = preferred;
    result["type"] = "object";
    result["properties"]["kind"] = std::move(kind);
    if (!rules.empty()) result["allOf"] = std::move(rules);
  }

  std::vector<std::string> files_in(const std::string& folder) const {
    std::vector<std::string> files;
    if (folder == "*") {
      for (const Kind& kind : schemas_.kinds()) files.push_back(kind.file);
      return files;
    }
    for (const std::string& name : schemas_.sub_kinds(folder))
      files.push_back(folder + "/" + name + std::string(kEnding));
    return files;
  }

  const SchemaSet& schemas_;
  Json definitions_ = Json::object();
};

}  // namespace

Result<Json> published_schema(const SchemaSet& schemas, std::string_view name) {
  Publication publication(schemas);
  const Kind* kind = schemas.kind(name);
  if (!kind && name != "recipe") {
    const std::string near = schemas.nearest_kind(name);
    return Diagnostic{ErrorCode::kUnknownKind,
                      {},
                      "",
                      "unknown kind '" + std::string(name) + "'",
                      near.empty() ? "'retort stages' lists them" : "did you mean '" + near + "'?"};
  }
  Json result = {{"$schema", "http://json-schema.org/draft-07/schema#"}};
  result.update(kind ? publication.stage(kind->file)
                     : publication.published(*schemas.document("recipe"), "recipe.schema.json"));
  if (!kind) {
    // A file is written before it is composed: it names groups, and may be short about the device.
    result["properties"]["defaults"] = {
        {"type", "array"}, {"description", "Config groups that the recipe is put together from, in order."}};
    Json& device = result["properties"]["device"];
    device = {{"description", device.value("description", "Where the run computes.")},
              {"anyOf", {device, {{"type", "string"}}}}};
  }
  result["definitions"] = publication.take_definitions();
  return result;
}

}  // namespace runner
