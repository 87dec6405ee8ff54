#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/schema/schema_node.h"

namespace runner {

/// Follows `path` through `schema` and, where kinds decide, through what `value` says. The default
/// of the key at its end, with all that is filled into it (null when it has none); nullopt when no
/// schema names that key.
std::optional<Value> declared_default(const SchemaNode& schema, const Value& value,
                                      std::span<const std::string> path);

/// The keys that `schema` declares in the mapping at `path` below `value`; empty where it declares
/// none.
std::vector<std::string> declared_keys(const SchemaNode& schema, const Value& value,
                                       std::span<const std::string> path);

/// Does `schema` take a single value at `path` below `value`, where nothing stands? Null: there is
/// no value either.
bool may_add(const SchemaNode& schema, const Value* value, std::span<const std::string> path);

/// The kinds that have the key at the end of `path`, where the mapping around it is of another
/// kind, which has not:
/// {"sgd"} for train.optimizer.momentum of adamw. Of stages those of the same family.
std::vector<std::string> other_kinds_with(const SchemaNode& schema, const Value& value,
                                          std::span<const std::string> path);

/// Follows `path` through `schema` and, where kinds decide, through what `value` says: what
/// x-resume says at its end or nearest above it; kForce where nothing does.
ResumeClass resume_class(const SchemaNode& schema, const Value& value,
                         std::span<const std::string> path);

/// `value`, which is valid by `schema`, with every default filled in: missing keys come after those
/// written, in the order of the schema, at the Location of their mapping; of alternatives only the
/// one that fits gives defaults. Where an integer is asked for, 1.0 becomes 1. `items` as for
/// check().
void fill_in_defaults(Value& value, const SchemaNode& schema, bool items = false);

}  // namespace runner
