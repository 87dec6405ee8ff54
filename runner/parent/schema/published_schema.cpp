#include "runner/parent/schema/published_schema.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/publication.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kInterpolated = R"(\$\{|^\?\?\?$)";

Json reference_to(const std::string& definition) {
  return {{"$ref", "#/definitions/" + definition}};
}

void loosen(Json& value);

/// Loosens the parts of a value. Options that exclude each other may be in different files, and an
/// option missing from one file may be in another, so neither is an error here.
void loosen_parts(Json& schema) {
  if (!schema.is_object()) return;
  schema.erase("required");
  if (schema.contains("oneOf")) {
    schema["anyOf"] = std::move(schema["oneOf"]);
    schema.erase("oneOf");
  }
  for (const char* keyword : {"properties", "patternProperties"}) {
    if (!schema.contains(keyword)) continue;
    for (auto& [name, part] : schema[keyword].items()) loosen(part);
  }
  if (schema.contains("additionalProperties")) loosen(schema["additionalProperties"]);
  if (schema.contains("items")) {
    Json& items = schema["items"];
    if (items.is_array()) std::ranges::for_each(items, loosen);
    else loosen(items);
  }
  if (schema.contains("anyOf")) std::ranges::for_each(schema["anyOf"], loosen_parts);
  if (schema.contains("allOf")) {
    Json kept = Json::array();
    for (Json& part : schema["allOf"]) {
      if (part.contains("not")) continue;
      if (!part.contains("if")) loosen_parts(part);
      kept.push_back(std::move(part));
    }
    if (kept.empty()) schema.erase("allOf");
    else schema["allOf"] = std::move(kept);
  }
  schema.erase("not");
}

/// True if `schema` accepts every string of three or more bytes, and thus every interpolation and
/// ???.
bool takes_any_string(const Json& schema) {
  return !schema.contains("pattern") && !schema.contains("maxLength") &&
         schema.value("minLength", 0) <= 3;
}

/// Makes the schema `value` also accept an interpolation or ???.
void loosen(Json& value) {
  if (!value.is_object()) return;
  loosen_parts(value);
  const bool is_choice = value.contains("anyOf");
  const bool is_listed = value.contains("enum") || value.contains("const");
  if (!value.contains("type") && !is_choice && !is_listed)
    return;  // accepts anything, or is a reference to a definition
  if (value.contains("type") && !is_choice && !is_listed) {
    Json types = value["type"].is_array() ? value["type"] : Json::array({value["type"]});
    const bool takes_strings = std::ranges::count(types, Json("string")) > 0;
    if (takes_strings && takes_any_string(value)) return;
    if (!takes_strings) {  // patterns do not constrain values that are not strings
      types.push_back("string");
      value["type"] = std::move(types);
      value["pattern"] = kInterpolated;
      return;
    }
  }
  if (is_choice && !is_listed && !value.contains("type")) {
    value["anyOf"].push_back(reference_to("interpolation"));
    return;
  }
  Json notes = Json::object(), rest = Json::object();
  for (auto& [key, part] : value.items()) {
    const bool is_note =
        key == "title" || key == "description" || key == "default" || key == "examples";
    (is_note ? notes : rest)[key] = std::move(part);
  }
  notes["anyOf"] = Json::array({std::move(rest), reference_to("interpolation")});
  value = std::move(notes);
}

/// Returns the defaults list of a file.
Json defaults_list() {
  return Json::parse(R"json({
    "type": "array",
    "description": "The configs that this one is composed of, in order; later ones take precedence.",
    "items": {
      "anyOf": [
        {"type": "string", "minLength": 1, "description": "The name of a config, or _self_: this file."},
        {
          "type": "object",
          "minProperties": 1,
          "maxProperties": 1,
          "description": "`group: option` selects an option of a config group. `override group: option` changes the selection made by another file. With `optional group: option`, the option's file may be missing.",
          "propertyNames": {"pattern": "^((optional|override) +)*[^ ]+$"},
          "additionalProperties": {
            "anyOf": [
              {"type": ["string", "null"], "minLength": 1, "description": "The option's name; null for none; ??? if another file must choose it."},
              {"type": "array", "items": {"type": "string", "minLength": 1}, "description": "Several options, in order."}
            ]
          }
        }
      ]
    }
  })json");
}

Json recipe_form(Publication& publication, const SchemaSet& schemas) {
  Json form = publication.file("recipe.schema.json");
  Json& properties = form["properties"];
  std::set<std::string> families;
  for (const Kind& kind : schemas.kinds()) families.insert(kind.family);
  for (const std::string& family : families) {
    if (!properties.contains(family)) properties[family] = publication.choice(family, "");
  }
  if (properties.contains("device")) {  // device has a short form
    Json device = std::move(properties["device"]);
    const std::string about = device.value("description", "Where the run computes.");
    properties["device"] = {
        {"description", about},
        {"anyOf", Json::array({std::move(device), reference_to("device/properties/select")})}};
  }
  properties["hydra"] = {{"type", "object"},
                         {"description", "Hydra's own settings; run.dir and sweep.dir are used."}};
  return form;
}

/// Returns the schema for a file of `group`: a mapping with one of its kinds.
Json group_form(Publication& publication, const std::string& group) {
  Json form = {{"title", group},
               {"description", "The keys that a file in recipes/" + group + " may contain."}};
  form.update(publication.choice(group, "", [&](const std::string& path) {
    const bool is_stage = std::ranges::count(path, '/') == 1;
    Json kind = is_stage ? publication.stage(path) : publication.file(path);
    kind["properties"]["defaults"] = true;
    return kind;
  }));
  return form;
}

}  // namespace

Result<Json> published_schema(const SchemaSet& schemas, std::string_view name) {
  std::vector<std::string> names = {"recipe"};
  for (const Kind& kind : schemas.kinds()) names.push_back(kind.name);
  for (const std::string& folder : schemas.sub_kind_folders()) {
    for (const std::string& kind : schemas.sub_kinds(folder)) names.push_back(folder + "/" + kind);
  }
  if (std::ranges::find(names, name) == names.end()) {
    const std::string near = did_you_mean_path(name, names);
    return Diagnostic{ErrorCode::kUnknownKind,
                      {},
                      "",
                      "unknown kind " + in_quotes(name),
                      near.empty() ? "available: " + joined(names, names.size()) : near};
  }
  Publication publication(schemas, Publication::Mappings::kWhole);
  const Kind* kind = schemas.kind(name);
  Json result = {{"$schema", "http://json-schema.org/draft-07/schema#"}};
  result.update(kind ? publication.stage(kind->file)
                     : publication.file(std::string(name) + ".schema.json"));
  result["definitions"] = publication.take_definitions();
  return result;
}

std::vector<std::string> editor_groups(const SchemaSet& schemas) {
  std::vector<std::string> groups = {"recipe"};
  for (const Kind& kind : schemas.kinds()) {
    if (groups.back() != kind.family) groups.push_back(kind.family);
  }
  for (const std::string& folder : schemas.sub_kind_folders()) groups.push_back(folder);
  return groups;
}

Result<Json> editor_schema(const SchemaSet& schemas, std::string_view group) {
  const std::vector<std::string> groups = editor_groups(schemas);
  if (std::ranges::find(groups, group) == groups.end()) {
    const std::string near = did_you_mean(group, groups);
    return Diagnostic{ErrorCode::kUnknownGroup,
                      {},
                      "",
                      "there is no editor schema " + in_quotes(group),
                      near.empty() ? "available: " + joined(groups, groups.size()) : near};
  }
  Publication publication(schemas, Publication::Mappings::kAsWritten);
  Json form = group == "recipe" ? recipe_form(publication, schemas)
                                : group_form(publication, std::string(group));
  loosen_parts(form);
  form["properties"]["defaults"] = defaults_list();
  Json definitions = publication.take_definitions();
  for (auto& [name, definition] : definitions.items()) loosen(definition);
  definitions["interpolation"] = {
      {"type", "string"},
      {"pattern", kInterpolated},
      {"description",
       "An interpolation such as ${model.name}, or ??? for a value that must be set."}};
  Json result = {{"$schema", "http://json-schema.org/draft-07/schema#"}};
  result.update(form);
  result["definitions"] = std::move(definitions);
  return result;
}

namespace {

constexpr std::size_t kMaxWord = 60;  // maximum bytes of the user's text in a message
constexpr int kMaxNestedPhrases = 8;  // maximum nesting of alternatives in a message

std::string cut(std::string_view word) {
  if (word.size() <= kMaxWord) return std::string(word);
  std::size_t end = kMaxWord;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) --end;
  return std::string(word.substr(0, end)) + "…";
}

std::string or_joined(std::vector<std::string> words) {
  std::vector<std::string> different;
  for (std::string& word : words) {
    if (!std::ranges::count(different, word)) different.push_back(std::move(word));
  }
  std::string result;
  for (std::size_t i = 0; i < different.size(); ++i) {
    if (i > 0) result += i + 1 < different.size() ? ", " : ", or ";
    result += different[i];
  }
  return result;
}

std::string expected(const SchemaNode& schema, std::string_view unit, int depth) {
  if (!schema.unit.empty()) unit = schema.unit;
  if (schema.target) return expected(*schema.target, unit, depth);
  if (schema.allowed) {
    std::vector<std::string> words;
    for (const Value& value : *schema.allowed) words.push_back(bare(value));
    return or_joined(std::move(words));
  }
  const auto& alternatives = schema.any_of.empty() ? schema.one_of : schema.any_of;
  if (!alternatives.empty() && schema.types == 0 && depth < kMaxNestedPhrases) {
    std::vector<std::string> words;
    for (const SchemaNode* part : alternatives) words.push_back(expected(*part, unit, depth + 1));
    return or_joined(std::move(words));
  }
  if (!schema.all_of.empty() && schema.types == 0 && depth < kMaxNestedPhrases) {
    return expected(*schema.all_of.front(), unit, depth + 1);
  }
  if (schema.kinds_in) return "a mapping";
  const std::string range = range_phrase(schema, unit);
  if (range.empty()) return type_phrase(schema.types);
  const bool numeric = (schema.types & ~(kIntegerType | kNumberType)) == 0;
  return (numeric && schema.types ? type_phrase(schema.types) : "a number") + " " + range;
}

}  // namespace

std::string expected(const SchemaNode& schema, std::string_view unit) {
  return expected(schema, unit, 0);
}

std::string type_phrase(unsigned types) {
  constexpr std::pair<unsigned, std::string_view> kWords[] = {{kBooleanType, "true or false"},
                                                              {kIntegerType, "an integer"},
                                                              {kNumberType, "a number"},
                                                              {kStringType, "a string"},
                                                              {kArrayType, "a list"},
                                                              {kObjectType, "a mapping"},
                                                              {kNullType, "null"}};
  if (types & kNumberType) types &= ~kIntegerType;
  std::vector<std::string> words;
  for (const auto& [type, word] : kWords) {
    if (types & type) words.emplace_back(word);
  }
  return words.empty() ? "another value" : or_joined(std::move(words));
}

std::string range_phrase(const SchemaNode& schema, std::string_view unit) {
  if (!schema.unit.empty()) unit = schema.unit;
  const auto& [low, high] = std::tie(schema.minimum, schema.maximum);
  const auto& [above, below] = std::tie(schema.exclusive_minimum, schema.exclusive_maximum);
  std::string range;
  if (low && high && !above && !below) {
    range = "from " + describe(*low) + " to " + describe(*high);
  } else {
    if (low) range = "of at least " + describe(*low);
    if (above) range += (range.empty() ? "above " : " and above ") + describe(*above);
    if (high) range += (range.empty() ? "of at most " : " and at most ") + describe(*high);
    if (below) range += (range.empty() ? "below " : " and below ") + describe(*below);
  }
  if (!range.empty() && !unit.empty()) range += " (" + std::string(unit) + ")";
  return range;
}

std::string found_phrase(const Value& value) {
  if (value.form == ScalarForm::kBigInteger && value.text() && value.secret_as.empty())
    return cut(*value.text()) + ", which does not fit in a signed 64-bit integer";
  return value.text() && value.secret_as.empty() ? "the string " + describe(value)
                                                 : describe(value);
}

std::string bare(const Value& value) {
  return value.text() && value.secret_as.empty() ? cut(*value.text()) : describe(value);
}

std::string in_quotes(std::string_view word) { return "'" + cut(word) + "'"; }

std::string joined(std::span<const std::string> words, std::size_t limit) {
  std::string result;
  for (std::size_t i = 0; i < std::min(words.size(), limit); ++i)
    result += (i > 0 ? ", " : "") + words[i];
  return words.size() > limit ? result + ", …" : result;
}

}  // namespace runner
