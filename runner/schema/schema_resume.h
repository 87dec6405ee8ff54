#pragma once

#include <span>
#include <string>

#include "runner/schema/schema_node.h"

namespace runner {

/// Follows `path` through `schema` and, where kinds decide, through what `value` says: what x-resume says at its end or
/// nearest above it; kForce where nothing does.
ResumeClass resume_class(const SchemaNode& schema, const Value& value, std::span<const std::string> path);

}  // namespace runner
