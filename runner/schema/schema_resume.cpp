#include "runner/schema/schema_resume.h"

namespace runner {
namespace {

/// What the node, or what it refers to, says; `above` where it says nothing.
ResumeClass class_of(const SchemaNode& node, ResumeClass above) {
  for (const SchemaNode* at = &node; at; at = at->target) {
    if (at->resume) return *at->resume;
  }
  return above;
}

ResumeClass follow(const SchemaNode& node, const Value* value, std::span<const std::string> path, ResumeClass above) {
  const ResumeClass here = class_of(node, above);
  if (path.empty()) return here;
  const SchemaNode& schema = followed(node);
  const std::string& key = path.front();
  const auto rest = path.subspan(1);
  const Value* below = value ? value->find(key) : nullptr;
  if (const SchemaNode* property = schema.property(key)) return follow(*property, below, rest, here);
  if (schema.common) {
    if (const SchemaNode* property = schema.common->property(key)) return follow(*property, below, rest, here);
  }
  if (schema.kinds_in && value) {
    if (const SchemaNode* kind = kind_of(schema, *value)) return follow(*kind, value, path, here);
  }
  for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
    for (const SchemaNode* part : *group) {
      if (followed(*part).property(key)) return follow(*part, value, path, here);
    }
  }
  return schema.additional_properties ? follow(*schema.additional_properties, below, rest, here) : here;
}

}  // namespace

ResumeClass resume_class(const SchemaNode& schema, const Value& value, std::span<const std::string> path) {
  return follow(schema, &value, path, ResumeClass::kForce);
}

}  // namespace runner
