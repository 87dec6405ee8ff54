#include "runner/parent/schema/schema_choices.h"

#include <algorithm>

namespace runner {
namespace {

const Value kNothing{};

class Gathering {
 public:
  explicit Gathering(KeyChoices& result) : result_(result) {}

  /// Follows `path` to what the schemas say of its end.
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
      if (const SchemaNode* kind = kind_of(schema, value ? *value : kNothing)) follow(*kind, value, path);
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
    else if (below && schema.additional_properties) follow(*schema.additional_properties, below, rest);
  }

 private:
  void add(const Value& value, const std::string& description) {
    const auto is_same = [&value](const KeyChoices::Choice& known) { return same_data(known.value, value); };
    if (std::ranges::none_of(result_.choices, is_same)) result_.choices.push_back({value, description});
  }

  /// Takes what `node` allows.
  void take(const SchemaNode& node) {
    const SchemaNode& schema = followed(node);
    for (const Value& example : schema.examples) add(example, "");
    if (schema.pointer == "/definitions/path" || schema.pointer == "/definitions/weights") result_.is_path = true;
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
    // The schema of the kind that is there allows its own name only; the others are as good.
    result_.choices.clear();
    result_.takes_scalar = true;
    for (const KindSchema& kind : schema.kinds) {
      add({kind.name, {}}, kind.schema().description);
    }
  }

  KeyChoices& result_;
};

}  // namespace

KeyChoices key_choices(const SchemaNode& schema, const Value& value, std::span<const std::string> path) {
  KeyChoices result;
  Gathering(result).follow(schema, &value, path);
  return result;
}

}  // namespace runner
