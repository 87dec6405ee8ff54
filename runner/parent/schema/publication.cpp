#include "runner/parent/schema/publication.h"

#include <algorithm>
#include <string_view>

#include "runner/parent/schema/kind_reader.h"

namespace runner {
namespace {

using Json = Publication::Json;

constexpr std::string_view kPublishedEnding = ".schema.json";

std::string stem_of(const std::string& path) {
  return path.substr(0, path.size() - kPublishedEnding.size());
}

/// Returns a name for the definition of a kind: "train.optimizer.adam".
std::string definition_of(const std::string& path) {
  std::string name = stem_of(path);
  std::ranges::replace(name, '/', '.');
  return name;
}

/// Returns the file that a reference in `file` points to, and the pointer into that file.
std::pair<std::string, std::string> referred_to(const std::string& reference,
                                                const std::string& file) {
  const auto hash = std::min(reference.find('#'), reference.size());
  return {hash == 0 ? file : reference.substr(0, hash),
          reference.substr(std::min(hash + 1, reference.size()))};
}

/// Returns the lowercase words of `text`, each between two spaces. Other characters become spaces.
std::string spaced_words(std::string_view text) {
  std::string result = " ";
  for (const char c : text) {
    const char lower = static_cast<char>(static_cast<unsigned char>(c) | 0x20);
    result += lower >= 'a' && lower <= 'z' ? lower : ' ';
  }
  return result + " ";
}

/// True if `text` contains `word`, in any case, but not only as a part of another word.
bool has_word(std::string_view text, std::string_view word) {
  return spaced_words(text).find(spaced_words(word)) != std::string::npos;
}

Json published_reference(const std::string& definition) {
  return {{"$ref", "#/definitions/" + definition}};
}

}  // namespace

Json Publication::file(const std::string& path) { return published(document(path), path); }

Json Publication::stage(const std::string& path) {
  Json result = file(path);
  const Json& common =
      document("common.schema.json").at("definitions").at("stage").at("properties");
  for (const auto& [key, property] : common.items()) {
    if (!result["properties"].contains(key))
      result["properties"][key] = published(property, "common.schema.json");
  }
  return result;
}

/// Returns the schema with references made local and our own keywords replaced or omitted.
Json Publication::published(const Json& schema, const std::string& file) {
  if (!schema.is_object()) return schema;
  Json result = Json::object();
  for (const auto& [key, value] : schema.items()) {
    if (key == "properties" || key == "patternProperties") {
      result[key] = Json::object();
      for (const auto& [name, part] : value.items()) result[key][name] = published(part, file);
    } else if (key == "anyOf" || key == "oneOf" || key == "allOf" ||
               (key == "items" && value.is_array())) {
      Json parts = Json::array();
      for (const Json& part : value) {
        if (key != "allOf" || !holds_rules_alone(part, file))
          parts.push_back(published(part, file));
      }
      if (!parts.empty()) result[key] = std::move(parts);
    } else if (key == "items" || key == "additionalProperties" || key == "propertyNames" ||
               key == "not") {
      result[key] = published(value, file);
    } else if (key != "$ref" && key != "$id" && key != "$schema" && key != "definitions" &&
               !key.starts_with("x-")) {
      result[key] = value;
    }
  }
  if (schema.contains("x-unit") && schema.contains("description")) {
    const std::string unit = schema["x-unit"];
    std::string description = schema["description"];
    if (!has_word(description, unit)) description += " Unit: " + unit + ".";
    result["description"] = std::move(description);
  }
  // Editors ignore keywords next to a $ref, so the $ref is put into an allOf.
  if (schema.contains("$ref"))
    result["allOf"] = Json::array({{{"$ref", local(schema["$ref"], file)}}});
  if (schema.contains("x-kinds"))
    result.update(choice(schema["x-kinds"], schema.value("x-default-kind", "")), true);
  return result;
}

Json Publication::choice(const std::string& folder, const std::string& preferred,
                         const std::function<Json(const std::string& path)>& of_file) {
  Json names = Json::array(), rules = Json::array(), all = Json::array();
  for (const std::string& path : files_in(folder)) {
    const Json& kind = document(path).at("properties").at("kind").at("const");
    const std::string definition = definition_of(path);
    define(definition, [&] {
      return of_file ? of_file(path) : is_stage_kind(path) ? stage(path) : file(path);
    });
    Json condition = {{"properties", {{"kind", {{"const", kind}}}}}};
    if (mappings_ == Mappings::kAsWritten) condition["type"] = "object";
    if (mappings_ == Mappings::kAsWritten || kind != preferred)
      condition["required"] = Json::array({"kind"});
    rules.push_back({{"if", std::move(condition)}, {"then", published_reference(definition)}});
    names.push_back(kind);
    all.push_back(published_reference(definition));
  }
  if (mappings_ == Mappings::kAsWritten && !all.empty()) {
    rules.push_back({{"if", {{"type", "object"}, {"not", {{"required", Json::array({"kind"})}}}}},
                     {"then", {{"anyOf", std::move(all)}}}});
  }
  Json kind = {{"enum", std::move(names)}};
  if (!preferred.empty()) kind["default"] = preferred;
  Json result = {{"type", "object"}, {"properties", {{"kind", std::move(kind)}}}};
  if (!rules.empty()) result["allOf"] = std::move(rules);
  return result;
}

/// True if `part` contains nothing but x-rules. Only Retort checks these, so such parts are left
/// out of published schemas.
bool Publication::holds_rules_alone(const Json& part, const std::string& file) const {
  if (!part.is_object()) return false;
  if (part.contains("$ref")) {
    const auto [target, pointer] = referred_to(part["$ref"], file);
    return holds_rules_alone(document(target).at(Json::json_pointer(pointer)), target);
  }
  return part.contains("x-rules") && part.size() == 1 + part.count("description");
}

/// Publishes the target of a reference in `file` as a definition. Returns "#/definitions/name".
std::string Publication::local(const std::string& reference, const std::string& file) {
  const auto [target, pointer] = referred_to(reference, file);
  std::string name =
      pointer.starts_with("/definitions/") ? pointer.substr(13) : stem_of(target) + pointer;
  std::ranges::replace(name, '/', '.');
  if (target != "common.schema.json" && pointer.starts_with("/definitions/"))
    name = title_of(target) + "." + name;
  define(name, [this, target = target, pointer = pointer] {
    return published(document(target).at(Json::json_pointer(pointer)), target);
  });
  return "#/definitions/" + name;
}

const Json& Publication::document(const std::string& path) const {
  return *schemas_.document(is_stage_kind(path) ? title_of(path) : stem_of(path));
}

std::vector<std::string> Publication::files_in(const std::string& folder) const {
  std::vector<std::string> files;
  for (const Kind& kind : schemas_.kinds()) {
    if (folder == "*" || folder == kind.family) files.push_back(kind.file);
  }
  if (!files.empty() || folder == "*") return files;
  for (const std::string& name : schemas_.sub_kinds(folder))
    files.push_back(folder + "/" + name + std::string(kPublishedEnding));
  return files;
}

void Publication::define(const std::string& name, const std::function<Json()>& make) {
  if (definitions_.contains(name)) return;
  definitions_[name] = nullptr;  // a schema may contain a reference back to itself
  Json made = make();
  definitions_[name] = std::move(made);
}

}  // namespace runner
