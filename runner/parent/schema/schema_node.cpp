#include "runner/parent/schema/schema_node.h"

#include <algorithm>
#include <regex>

namespace runner {
namespace {

constexpr std::size_t kMaxExpression = 1000;  // in bytes; std::regex compiles recursively

/// Returns the length in bytes indicated by the first byte of a character; 1 for a byte that cannot
/// start a character.
std::size_t announced_length(unsigned char first) {
  if (first >= 0xF0 && first < 0xF8) return 4;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xC0 && first < 0xE0) return 2;
  return 1;
}

std::wstring wide_characters(std::string_view text) {
  static_assert(sizeof(wchar_t) == 4);
  std::wstring result;
  while (!text.empty()) {
    std::size_t length = announced_length(text[0]);
    const auto continues = [](unsigned char c) { return (c & 0xC0) == 0x80; };
    if (length > text.size() || !std::ranges::all_of(text.substr(1, length - 1), continues))
      length = 1;
    unsigned code = static_cast<unsigned char>(text[0]);
    if (length > 1) code &= 0xFFu >> (length + 1);
    for (std::size_t i = 1; i < length; ++i)
      code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    result += static_cast<wchar_t>(code);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

struct Pattern::Compiled {
  std::wregex regex;
};

Pattern::Pattern(std::string expression, std::shared_ptr<const Compiled> compiled)
    : expression_(std::move(expression)), compiled_(std::move(compiled)) {}

std::optional<Pattern> Pattern::compile(std::string_view expression) {
  if (expression.size() > kMaxExpression) return std::nullopt;
  try {
    // libstdc++'s breadth-first matcher: no recursion per character, no exponential time.
    constexpr auto kFlags = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;
    auto compiled = std::make_shared<const Compiled>(
        Compiled{std::wregex(wide_characters(expression), kFlags)});
    return Pattern(std::string(expression), std::move(compiled));
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

bool Pattern::matches(std::string_view text) const {
  if (text.size() > 4 * kMaxText) return false;
  const std::wstring wide = wide_characters(text);
  return wide.size() <= kMaxText && std::regex_search(wide, compiled_->regex);
}

std::size_t character_count(std::string_view text) {
  return text.size() <= 1 ? text.size() : wide_characters(text).size();
}

const SchemaNode* SchemaNode::property(std::string_view key) const {
  const auto found = std::ranges::find(properties, key, &NamedSchema::name);
  return found == properties.end() ? nullptr : found->schema;
}

const SchemaNode* SchemaNode::kind(std::string_view name) const {
  const auto found = std::ranges::find(kinds, name, &KindSchema::name);
  return found == kinds.end() ? nullptr : &found->schema();
}

const SchemaNode& followed(const SchemaNode& node) {
  const SchemaNode* end = &node;
  while (end->target) end = end->target;
  return *end;
}

const Value* default_of(const SchemaNode& node) {
  for (const SchemaNode* at = &node; at; at = at->target) {
    if (at->default_value) return at->default_value.get();
  }
  return nullptr;
}

const std::string& description_of(const SchemaNode& node) {
  const SchemaNode* at = &node;
  while (at->description.empty() && at->target) at = at->target;
  return at->description;
}

const FileRule* file_rule_of(const SchemaNode& node) {
  const SchemaNode* at = &node;
  while (!at->file_rule && at->target) at = at->target;
  return at->file_rule ? &*at->file_rule : nullptr;
}

const std::vector<Effect>& effects_of(const SchemaNode& node) {
  const SchemaNode* at = &node;
  while (at->effective.empty() && at->target) at = at->target;
  return at->effective;
}

const SchemaNode* kind_of(const SchemaNode& node, const Value& mapping) {
  const Value* kind = mapping.find("kind");
  if (!kind) return node.kind(node.default_kind);
  return kind->text() ? node.kind(*kind->text()) : nullptr;
}

namespace {

const Value kNothing{};

class Gathering {
 public:
  explicit Gathering(KeyChoices& result) : result_(result) {}

  /// Follows `path` and collects what the schemas declare at its end.
  void follow(const SchemaNode& node, const Value* value, std::span<const std::string> path) {
    if (path.empty()) {
      if (result_.description.empty()) result_.description = description_of(node);
      return take(node);
    }
    const SchemaNode& schema = followed(node);
    const std::string& key = path.front();
    const Value* below = value ? value->find(key) : nullptr;
    const auto rest = path.subspan(1);
    if (schema.kinds_in) {
      if (const SchemaNode* kind = kind_of(schema, value ? *value : kNothing))
        follow(*kind, value, path);
      if (key == "kind" && rest.empty()) take_kinds(schema);
    }
    bool is_property = false;
    for (const SchemaNode* part : {&schema, schema.common}) {
      const SchemaNode* property = part ? part->property(key) : nullptr;
      if (property) follow(*property, below, rest);
      is_property = is_property || property;
    }
    if (is_property) return;
    for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
      for (const SchemaNode* part : *group) follow(*part, value, path);
    }
    if (schema.items) follow(*schema.items, nullptr, rest);
    else if (below && schema.additional_properties)
      follow(*schema.additional_properties, below, rest);
  }

 private:
  void add(const Value& value, const std::string& description) {
    const auto is_same = [&value](const KeyChoices::Choice& known) {
      return same_data(known.value, value);
    };
    if (std::ranges::none_of(result_.choices, is_same))
      result_.choices.push_back({value, description});
  }

  /// Adds the values that `node` allows.
  void take(const SchemaNode& node) {
    const SchemaNode& schema = followed(node);
    for (const Value& example : schema.examples) add(example, "");
    if (schema.pointer == "/definitions/path" || schema.pointer == "/definitions/weights")
      result_.is_path = true;
    if (schema.allowed) {
      result_.takes_scalar = true;
      for (const Value& value : *schema.allowed) add(value, "");
      return;
    }
    if (schema.types & kBooleanType) {
      add({true, {}}, "");
      add({false, {}}, "");
    }
    if (schema.types & kNullType) add({nullptr, {}}, "");
    if (schema.types & ~(kObjectType | kArrayType)) result_.takes_scalar = true;
    for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
      for (const SchemaNode* part : *group) take(*part);
    }
  }

  void take_kinds(const SchemaNode& schema) {
    // The schema of the current kind allows only its own name; the other kinds are equally valid.
    result_.choices.clear();
    result_.takes_scalar = true;
    for (const KindSchema& kind : schema.kinds) {
      add({kind.name, {}}, kind.schema().description);
    }
  }

  KeyChoices& result_;
};

}  // namespace

KeyChoices key_choices(const SchemaNode& schema, const Value& value,
                       std::span<const std::string> path) {
  KeyChoices result;
  Gathering(result).follow(schema, &value, path);
  return result;
}

}  // namespace runner
