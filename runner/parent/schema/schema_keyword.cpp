#include "runner/parent/schema/schema_keyword.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema_node.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kRules = std::to_array<KeywordRule>({
    {"$schema", Keyword::kSchema, Needs::kText},
    {"$id", Keyword::kId, Needs::kText},
    {"$ref", Keyword::kRef, Needs::kText},
    {"$comment", Keyword::kComment, Needs::kText},
    {"title", Keyword::kTitle, Needs::kText},
    {"description", Keyword::kDescription, Needs::kText},
    {"default", Keyword::kDefault, Needs::kAnything},
    {"examples", Keyword::kExamples, Needs::kList},
    {"definitions", Keyword::kDefinitions, Needs::kNamedSchemas},
    {"type", Keyword::kType, Needs::kTypes},
    {"enum", Keyword::kEnum, Needs::kValues},
    {"const", Keyword::kConst, Needs::kAnything},
    {"properties", Keyword::kProperties, Needs::kNamedSchemas},
    {"required", Keyword::kRequired, Needs::kUniqueTexts},
    {"additionalProperties", Keyword::kAdditionalProperties, Needs::kSchema},
    {"patternProperties", Keyword::kPatternProperties, Needs::kSchemasByExpression},
    {"propertyNames", Keyword::kPropertyNames, Needs::kSchema},
    {"minProperties", Keyword::kMinProperties, Needs::kCount},
    {"maxProperties", Keyword::kMaxProperties, Needs::kCount},
    {"items", Keyword::kItems, Needs::kSchemaOrSchemas},
    {"minItems", Keyword::kMinItems, Needs::kCount},
    {"maxItems", Keyword::kMaxItems, Needs::kCount},
    {"uniqueItems", Keyword::kUniqueItems, Needs::kFlag},
    {"minLength", Keyword::kMinLength, Needs::kCount},
    {"maxLength", Keyword::kMaxLength, Needs::kCount},
    {"pattern", Keyword::kPattern, Needs::kExpression},
    {"minimum", Keyword::kMinimum, Needs::kNumber},
    {"maximum", Keyword::kMaximum, Needs::kNumber},
    {"exclusiveMinimum", Keyword::kExclusiveMinimum, Needs::kNumber},
    {"exclusiveMaximum", Keyword::kExclusiveMaximum, Needs::kNumber},
    {"multipleOf", Keyword::kMultipleOf, Needs::kPositiveNumber},
    {"anyOf", Keyword::kAnyOf, Needs::kSchemas},
    {"oneOf", Keyword::kOneOf, Needs::kSchemas},
    {"allOf", Keyword::kAllOf, Needs::kSchemas},
    {"not", Keyword::kNot, Needs::kSchema},
    {"x-version", Keyword::kVersion, Needs::kCount},
    {"x-inputs", Keyword::kInputs, Needs::kPorts},
    {"x-outputs", Keyword::kOutputs, Needs::kPorts},
    {"x-metrics", Keyword::kMetrics, Needs::kUniqueTexts},
    {"x-unit", Keyword::kUnit, Needs::kText},
    {"x-cacheable", Keyword::kCacheable, Needs::kFlag},
    {"x-python", Keyword::kPython, Needs::kUniqueTexts},
    {"x-coupling", Keyword::kCoupling, Needs::kCoupling},
    {"x-mixes-samples", Keyword::kMixesSamples, Needs::kFlag},
    {"x-spans-training", Keyword::kSpansTraining, Needs::kFlag},
    {"x-resume", Keyword::kResume, Needs::kResumeClass},
    {"x-rules", Keyword::kRules, Needs::kRules},
    {"x-kinds", Keyword::kKinds, Needs::kText},
    {"x-default-kind", Keyword::kDefaultKind, Needs::kText},
    {"x-config", Keyword::kConfig, Needs::kText},
    {"x-effective-when", Keyword::kEffectiveWhen, Needs::kEffects},
    {"x-file", Keyword::kFile, Needs::kFileRule},
    {"x-other-names", Keyword::kOtherNames, Needs::kUniqueTexts},
    {"x-remark", Keyword::kRemark, Needs::kRemark},
});

bool are_unique_texts(const Json& json) {
  std::set<std::string> seen;
  return json.is_array() && std::ranges::all_of(json, [&](const Json& item) {
           return item.is_string() && seen.insert(item.get<std::string>()).second;
         });
}

bool are_types(const Json& json) {
  if (json.is_string()) return type_bit(json.get<std::string>()) != 0;
  return !json.empty() && are_unique_texts(json) && std::ranges::all_of(json, are_types);
}

/// True for one of the three couplings, or a mapping from values of an option to couplings.
bool is_coupling(const Json& json) {
  if (json.is_object())
    return !json.empty() && std::ranges::all_of(json, [](const Json& one) {
      return one.is_string() && is_coupling(one);
    });
  return json == "per_sample" || json == "per_group" || json == "whole_batch";
}

bool is_rule(const Json& json) {
  return json.is_object() && json.size() == 4 &&
         std::ranges::all_of(std::array{"rule", "at", "message", "help"}, [&](const char* key) {
           return json.contains(key) && json[key].is_string();
         });
}

bool is_effect(const Json& json) {
  return json.is_object() && json.size() == 2 &&
         std::ranges::all_of(std::array{"when", "why"}, [&](const char* key) {
           return json.contains(key) && json[key].is_string();
         });
}

bool is_file_rule(const Json& json) {
  constexpr std::array<std::string_view, 4> kKeys = {"is", "below", "unless", "help"};
  constexpr std::array<std::string_view, 4> kKinds = {"file", "folder", "file_or_folder",
                                                      "weights"};
  if (!json.is_object() || !json.contains("is")) return false;
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kKeys, key) == kKeys.end() || !value.is_string()) return false;
  }
  return std::ranges::find(kKinds, json["is"].get<std::string>()) != kKinds.end();
}

bool is_remark(const Json& json) {
  return json.is_object() && json.size() == 2 &&
         std::ranges::all_of(std::array{"when", "text"}, [&](const char* key) {
           return json.contains(key) && json[key].is_string();
         });
}

bool is_number(const Json& json) {
  return json.is_number() && !(json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX);
}

bool is_count(const Json& json) {
  if (!json.is_number()) return false;
  const double count = json.get<double>();
  return count >= 0 && count <= 1e9 && count == std::floor(count);
}

}  // namespace

const KeywordRule* keyword_rule(std::string_view name) {
  const auto found = std::ranges::find(kRules, name, &KeywordRule::name);
  return found == kRules.end() ? nullptr : &*found;
}

bool fits(Needs needs, const Json& json) {
  switch (needs) {
    case Needs::kAnything:
      return true;
    case Needs::kText:
      return json.is_string();
    case Needs::kResumeClass:
      return json == "safe" || json == "force" || json == "refused";
    case Needs::kCoupling:
      return is_coupling(json);
    case Needs::kRules:
      return json.is_array() && std::ranges::all_of(json, is_rule);
    case Needs::kEffects:
      return json.is_array() && !json.empty() && std::ranges::all_of(json, is_effect);
    case Needs::kFileRule:
      return is_file_rule(json);
    case Needs::kRemark:
      return is_remark(json);
    case Needs::kFlag:
      return json.is_boolean();
    case Needs::kCount:
      return is_count(json);
    case Needs::kNumber:
      return is_number(json);
    case Needs::kPositiveNumber:
      return is_number(json) && json.get<double>() > 0;
    case Needs::kTypes:
      return are_types(json);
    case Needs::kList:
      return json.is_array();
    case Needs::kValues:
      return json.is_array() && !json.empty();
    case Needs::kUniqueTexts:
      return are_unique_texts(json);
    case Needs::kExpression:
      return json.is_string();
    case Needs::kSchema:
      return json.is_object() || json.is_boolean();
    case Needs::kSchemaOrSchemas:
      return json.is_object() || json.is_boolean() || json.is_array();
    case Needs::kSchemas:
      return json.is_array() && !json.empty();
    case Needs::kNamedSchemas:
    case Needs::kPorts:
      return json.is_object();
    case Needs::kSchemasByExpression:
      return json.is_object();
  }
  return false;
}

std::string_view phrase(Needs needs) {
  switch (needs) {
    case Needs::kAnything:
      return "anything";
    case Needs::kText:
      return "a string";
    case Needs::kResumeClass:
      return "safe, force or refused";
    case Needs::kCoupling:
      return "per_sample, per_group or whole_batch, or one of them for each value";
    case Needs::kRules:
      return "a list of mappings with rule, at, message and help";
    case Needs::kEffects:
      return "a list of mappings with when and why";
    case Needs::kFileRule:
      return "a mapping with is (file, folder, file_or_folder or weights), and optionally help, "
             "below and unless";
    case Needs::kRemark:
      return "a mapping with when and text";
    case Needs::kFlag:
      return "true or false";
    case Needs::kCount:
      return "a count";
    case Needs::kNumber:
      return "a number";
    case Needs::kPositiveNumber:
      return "a number above 0";
    case Needs::kTypes:
      return "a type or a list of different types";
    case Needs::kList:
      return "a list";
    case Needs::kValues:
      return "a non-empty list";
    case Needs::kUniqueTexts:
      return "a list of different strings";
    case Needs::kExpression:
      return "a regular expression";
    case Needs::kSchema:
      return "a schema";
    case Needs::kSchemaOrSchemas:
      return "a schema or a list of schemas";
    case Needs::kSchemas:
      return "a list of schemas";
    case Needs::kNamedSchemas:
      return "a mapping of schemas";
    case Needs::kSchemasByExpression:
      return "a mapping from regular expressions to schemas";
    case Needs::kPorts:
      return "a mapping of ports";
  }
  return "";
}

unsigned type_bit(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames = {"null",   "boolean", "integer", "number",
                                                      "string", "array",   "object"};
  const auto found = std::ranges::find(kNames, name);
  return found == kNames.end() ? 0 : 1u << (found - kNames.begin());
}

}  // namespace runner
