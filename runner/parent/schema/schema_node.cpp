#include "runner/parent/schema/schema_node.h"

#include <algorithm>

namespace runner {

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

}  // namespace runner
