#include "runner/parent/schema/schema_reader.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "runner/parent/schema/kind_reader.h"
#include "runner/parent/schema/schema_circle.h"
#include "runner/parent/schema/schema_json.h"
#include "runner/parent/schema/schema_keyword.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

using Json = SchemaReader::Json;

constexpr std::string_view kCommonFile = "common.schema.json";
constexpr std::string_view kCommonKeys = "/definitions/stage";
constexpr int kDeepestSchema = 100;  // of nested subschemas

const Json::object_t& members(const Json& json) { return json.get_ref<const Json::object_t&>(); }

std::size_t count(const Json& json) { return static_cast<std::size_t>(json.get<double>()); }

/// Decodes "%25" to '%'; nullopt if a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto digit = [&](char c) {
    return kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) == kDigits.npos ||
        digit(text[i + 2]) == kDigits.npos)
      return std::nullopt;
    result += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return result;
}

FileRule read_file_rule(const Json& json) {
  const std::string is = json["is"];
  return {.is = is == "folder"           ? FileRule::Is::kFolder
                : is == "file_or_folder" ? FileRule::Is::kFileOrFolder
                : is == "weights"        ? FileRule::Is::kWeights
                                         : FileRule::Is::kFile,
          .below = json.value("below", ""),
          .unless = json.value("unless", ""),
          .help = json.value("help", "")};
}

}  // namespace

void SchemaReader::fail(std::string_view file, std::string pointer, const std::string& message,
                        std::string help) {
  const std::string found = "schemas/" + std::string(file) + ": " + message;
  errors.push_back({ErrorCode::kBadSchema, {}, std::move(pointer), found, std::move(help)});
}

void SchemaReader::add_file(const SchemaFile& file) {
  if (!texts_.emplace(file.path, file.text).second) fail(file.path, "", "the file is listed twice");
}

void SchemaReader::read_all() {
  for (const auto& [path, text] : texts_) need(path);
  if (!errors.empty()) return;
  connect();
  if (!errors.empty()) return;
  for (const SchemaCircle& circle : circles_in(nodes))
    fail(circle.at->file, circle.at->pointer, circle.problem);
}

std::vector<std::string_view> SchemaReader::paths() const {
  std::vector<std::string_view> paths;
  for (const auto& [path, text] : texts_) paths.push_back(path);
  return paths;
}

const SchemaReader::Json* SchemaReader::document(std::string_view path) {
  at(path);
  const auto found = documents_.find(path);
  return found == documents_.end() ? nullptr : &found->second.json;
}

SchemaNode* SchemaReader::at(std::string_view address) {
  const std::size_t known_errors = errors.size();
  const auto hash = std::min(address.find('#'), address.size());
  SchemaNode* const node =
      find(address.substr(0, hash), address.substr(std::min(hash + 1, address.size())));
  connect();
  if (errors.size() > known_errors) throw std::logic_error(errors.back().message);
  return node;
}

SchemaReader::Document* SchemaReader::need(std::string_view path) {
  auto found = documents_.find(path);
  if (found == documents_.end()) {
    const auto known = texts_.find(path);
    if (known == texts_.end()) return nullptr;
    read_file(known->first, known->second);
    found = documents_.find(path);
  }
  return found == documents_.end() ? nullptr : &found->second;
}

SchemaNode* SchemaReader::find(std::string_view file, std::string_view pointer) {
  const Document* document = need(file);
  if (!document) return nullptr;
  const auto found = document->nodes.find(pointer);
  return found == document->nodes.end() ? nullptr : found->second;
}

void SchemaReader::read_file(std::string_view path, std::string_view text) {
  SchemaJson json = read_schema_json(text);
  if (!json.problem.empty()) return fail(path, "", json.problem);
  Document& document =
      documents_.emplace(path, Document{path, std::move(json.root), {}}).first->second;
  if (!fits(Needs::kSchema, document.json))
    return fail(path, "", "a schema must be a mapping, true or false");
  read(document.json, document, "", 0);
}

SchemaNode* SchemaReader::read(const Json& json, Document& document, std::string pointer,
                               int depth) {
  SchemaNode& node = nodes.emplace_back();
  node.file = document.path;
  node.pointer = std::move(pointer);
  document.nodes.emplace(node.pointer, &node);
  if (json.is_boolean()) {
    node.verdict = json.get<bool>();
  } else if (!json.is_object()) {
    fail(node.file, node.pointer, "a schema must be a mapping, true or false");
  } else if (depth > kDeepestSchema) {
    fail(node.file, node.pointer, "nested too deeply");
  } else {
    for (const auto& [key, value] : members(json))
      read_keyword(node, document, key, value, depth + 1);
  }
  return &node;
}

void SchemaReader::read_keyword(SchemaNode& node, Document& document, const std::string& key,
                                const Json& json, int depth) {
  const auto place = [&] { return pointer_to(node.pointer, key); };
  const KeywordRule* rule = keyword_rule(key);
  if (!rule)
    return fail(node.file, place(), "the validator does not support the keyword '" + key + "'");
  const auto need_other = [&] {
    fail(node.file, place(), "'" + key + "' must be " + std::string(phrase(rule->needs)));
  };
  if (!fits(rule->needs, json)) return need_other();
  const auto text = [&]() -> const std::string& { return json.get_ref<const std::string&>(); };
  const auto schema = [&](const Json& part) { return read(part, document, place(), depth); };
  const auto schemas = [&] {
    std::vector<const SchemaNode*> result;
    const std::string here = place();
    for (const Json& part : json)
      result.push_back(
          read(part, document, pointer_to(here, std::to_string(result.size())), depth));
    return result;
  };
  const auto named = [&] {
    std::vector<NamedSchema> result;
    result.reserve(json.size());
    const std::string here = place();
    for (const auto& [name, part] : members(json))
      result.push_back({name, read(part, document, pointer_to(here, name), depth)});
    return result;
  };
  const auto value = [&] { return std::make_unique<const Value>(from_json(json)); };
  const auto values = [&] {
    std::vector<Value> result;
    for (const Json& item : json) result.push_back(from_json(item));
    return result;
  };
  const auto expression = [&](const std::string& written) {
    auto compiled = Pattern::compile(written);
    if (!compiled) need_other();
    return compiled;
  };
  const auto allow = [&](std::vector<Value> some) {
    const auto also = [&](const Value& one) {
      return !node.allowed || std::ranges::any_of(*node.allowed, [&](const Value& other) {
        return same_data(one, other);
      });
    };
    std::erase_if(some, std::not_fn(also));
    node.allowed = std::move(some);
  };
  switch (rule->keyword) {
    case Keyword::kId:
      if (!node.pointer.empty()) fail(node.file, place(), "only a file has an $id");
      else if (text() != node.file)
        fail(node.file, place(), "$id must be '" + std::string(node.file) + "'");
      break;
    case Keyword::kRef:
      node.reference = text();
      break;
    case Keyword::kDescription:
      node.description = text();
      break;
    case Keyword::kDefault:
      node.default_value = value();
      break;
    case Keyword::kExamples:
      node.examples = values();
      break;
    case Keyword::kDefinitions:
      named();
      break;
    case Keyword::kType:
      if (json.is_string()) node.types |= type_bit(text());
      else
        for (const Json& type : json) node.types |= type_bit(type.get_ref<const std::string&>());
      break;
    case Keyword::kEnum:
      allow(values());
      break;
    case Keyword::kConst:
      allow({from_json(json)});
      break;
    case Keyword::kProperties:
      node.properties = named();
      break;
    case Keyword::kRequired:
      node.required = json.get<std::vector<std::string>>();
      break;
    case Keyword::kAdditionalProperties:
      node.additional_properties = schema(json);
      break;
    case Keyword::kPatternProperties:
      for (const NamedSchema& entry : named()) {
        if (auto pattern = expression(entry.name))
          node.pattern_properties.push_back({*std::move(pattern), entry.schema});
      }
      break;
    case Keyword::kPropertyNames:
      node.property_names = schema(json);
      break;
    case Keyword::kMinProperties:
      node.min_properties = count(json);
      break;
    case Keyword::kMaxProperties:
      node.max_properties = count(json);
      break;
    case Keyword::kItems:
      if (json.is_array()) node.first_items = schemas();
      else node.items = schema(json);
      break;
    case Keyword::kMinItems:
      node.min_items = count(json);
      break;
    case Keyword::kMaxItems:
      node.max_items = count(json);
      break;
    case Keyword::kUniqueItems:
      node.unique_items = json.get<bool>();
      break;
    case Keyword::kMinLength:
      node.min_length = count(json);
      break;
    case Keyword::kMaxLength:
      node.max_length = count(json);
      break;
    case Keyword::kPattern:
      node.pattern = expression(text());
      break;
    case Keyword::kMinimum:
      node.minimum = value();
      break;
    case Keyword::kMaximum:
      node.maximum = value();
      break;
    case Keyword::kExclusiveMinimum:
      node.exclusive_minimum = value();
      break;
    case Keyword::kExclusiveMaximum:
      node.exclusive_maximum = value();
      break;
    case Keyword::kMultipleOf:
      node.multiple_of = value();
      break;
    case Keyword::kAnyOf:
      node.any_of = schemas();
      break;
    case Keyword::kOneOf:
      node.one_of = schemas();
      break;
    case Keyword::kAllOf:
      node.all_of = schemas();
      break;
    case Keyword::kNot:
      node.not_this = schema(json);
      break;
    case Keyword::kUnit:
      node.unit = text();
      break;
    case Keyword::kResume:
      node.resume = json == "safe"    ? ResumeClass::kSafe
                    : json == "force" ? ResumeClass::kForce
                                      : ResumeClass::kRefused;
      break;
    case Keyword::kRules:
      for (const Json& one : json) node.rules.push_back(read_rule(one, node.file, place()));
      break;
    case Keyword::kEffectiveWhen:
      for (const Json& one : json) {
        node.effective.push_back({one["when"], one["why"]});
        check_condition(node.effective.back().when, node.file, place());
      }
      break;
    case Keyword::kFile:
      node.file_rule = read_file_rule(json);
      check_condition(node.file_rule->unless, node.file, place());
      break;
    case Keyword::kRemark:
      node.remark = Remark{json["when"], json["text"]};
      check_condition(node.remark->when, node.file, place());
      break;
    case Keyword::kOtherNames:
      node.other_names = json;
      break;
    case Keyword::kKinds:
      node.kinds_in = text();
      break;
    case Keyword::kDefaultKind:
      node.default_kind = text();
      break;
    case Keyword::kConfig:
      node.config = text();
      break;
    case Keyword::kVersion:
    case Keyword::kInputs:
    case Keyword::kOutputs:
    case Keyword::kMetrics:
    case Keyword::kCacheable:  // read by read_kind()
    case Keyword::kPython:
    case Keyword::kCoupling:  // checked together with a graph: compile/legality.cpp
    case Keyword::kMixesSamples:
    case Keyword::kSpansTraining:
    case Keyword::kSchema:
    case Keyword::kComment:
    case Keyword::kTitle:
      break;
  }
}

Rule SchemaReader::read_rule(const Json& json, std::string_view file, const std::string& pointer) {
  Rule rule{json["rule"], json["at"], json["message"], json["help"]};
  check_condition(rule.condition, file, pointer);
  return rule;
}

void SchemaReader::check_condition(const std::string& condition, std::string_view file,
                                   const std::string& pointer) {
  if (condition.empty()) return;
  try {
    holds(condition, [](std::string_view) { return nullptr; });
  } catch (const std::invalid_argument& error) {
    fail(file, pointer, error.what());
  }
}

void SchemaReader::connect() {
  while (connected_ < nodes.size()) {
    SchemaNode& node = nodes[connected_++];
    if (node.reference) connect_reference(node);
    if (node.kinds_in) connect_kinds(node);
    else if (!node.default_kind.empty())
      fail(node.file, node.pointer, "x-default-kind without x-kinds");
    if (node.pointer.empty() && is_stage_kind(node.file))
      node.common = find(kCommonFile, kCommonKeys);
  }
}

void SchemaReader::connect_reference(SchemaNode& node) {
  const std::string_view reference = *node.reference;
  const auto hash = std::min(reference.find('#'), reference.size());
  const std::string_view file = hash == 0 ? node.file : reference.substr(0, hash);
  const auto pointer = percent_decoded(reference.substr(std::min(hash + 1, reference.size())));
  node.target = pointer ? find(file, *pointer) : nullptr;
  if (!node.target)
    fail(node.file, pointer_to(node.pointer, "$ref"),
         "there is no schema at '" + *node.reference + "'");
}

void SchemaReader::connect_kinds(SchemaNode& node) {
  constexpr std::string_view kEnding = ".schema.json";
  const bool stages = *node.kinds_in == "*";
  for (const auto& [path, text] : texts_) {
    if (!path.ends_with(kEnding)) continue;
    const auto schema = [this, &path = path,
                         read = static_cast<SchemaNode*>(nullptr)]() mutable -> const SchemaNode& {
      if (!read) read = at(path);
      return *read;
    };
    const std::string stem = path.substr(0, path.size() - kEnding.size());
    const auto slash = stem.rfind('/');
    if (slash == stem.npos) continue;
    if (stages && stem.find('/') == slash)
      node.kinds.push_back({stem.substr(0, slash) + "." + stem.substr(slash + 1), schema});
    if (!stages && stem.substr(0, slash) == *node.kinds_in)
      node.kinds.push_back({stem.substr(slash + 1), schema});
  }
  // Schemas without any stages are useless but not wrong; a test may need none.
  if (!stages && node.kinds.empty()) {
    fail(node.file, pointer_to(node.pointer, "x-kinds"),
         "there is no schema in the folder '" + *node.kinds_in + "'");
  } else if (!node.default_kind.empty() &&
             std::ranges::find(node.kinds, node.default_kind, &KindSchema::name) ==
                 node.kinds.end()) {
    fail(node.file, pointer_to(node.pointer, "x-default-kind"),
         "there is no kind '" + node.default_kind + "'");
  }
}

}  // namespace runner
