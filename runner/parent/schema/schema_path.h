#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/schema/schema_node.h"

namespace runner {

/// Follows `path` through `schema` and, for mappings with kinds, through `value`. Returns the
/// default of the key at its end, with all nested defaults filled in (null if it has none); nullopt
/// if no schema declares that key.
std::optional<Value> declared_default(const SchemaNode& schema, const Value& value,
                                      std::span<const std::string> path);

/// Returns the keys that `schema` declares for the mapping at `path` below `value`; empty if it
/// declares none.
std::vector<std::string> declared_keys(const SchemaNode& schema, const Value& value,
                                       std::span<const std::string> path);

/// True if `schema` accepts a single value at `path` below `value`, where there is no value yet.
/// `value` is null if the recipe does not have it either.
bool may_add(const SchemaNode& schema, const Value* value, std::span<const std::string> path);

/// Returns the kinds that have the key at the end of `path`, if the kind of the enclosing mapping
/// lacks the key: {"sgd"} for train.optimizer.momentum with adamw. For stages, only kinds in the
/// same family.
std::vector<std::string> other_kinds_with(const SchemaNode& schema, const Value& value,
                                          std::span<const std::string> path);

/// Follows `path` through `schema` and, for mappings with kinds, through `value`. Returns the
/// x-resume at its end or at the nearest ancestor; kForce if there is none.
ResumeClass resume_class(const SchemaNode& schema, const Value& value,
                         std::span<const std::string> path);

/// Fills in every default in `value`, which must be valid according to `schema`. Added keys come
/// after the written ones, in the order of the schema, with the Location of their mapping. Among
/// alternatives, only the one that matches supplies defaults. If an integer is expected, 1.0
/// becomes 1. `items` is as in check().
void fill_in_defaults(Value& value, const SchemaNode& schema, bool items = false);

}  // namespace runner
