#include "runner/parent/schema/schema_config.h"

namespace runner {
namespace {

void visit_below(Value& value, const SchemaNode& node, const std::string& pointer, const VisitConfigured& visit) {
  const SchemaNode& schema = followed(node);
  if (!value.map()) return;
  if (schema.config) visit(value, *schema.config, pointer);
  if (schema.kinds_in) {
    if (const SchemaNode* kind = kind_of(schema, value)) visit_below(value, *kind, pointer, visit);
  }
  for (Entry& entry : *value.map()) {
    const SchemaNode* property = schema.property(entry.key);
    if (!property) property = schema.additional_properties;
    if (property) visit_below(entry.value, *property, pointer_to(pointer, entry.key), visit);
  }
}

}  // namespace

void visit_configured(Value& value, const SchemaNode& schema, const VisitConfigured& visit) {
  visit_below(value, schema, "", visit);
}

}  // namespace runner
