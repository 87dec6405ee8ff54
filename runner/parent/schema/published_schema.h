#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// What `retort schema [KIND]` prints: one draft-07 document that needs no other file and no keyword of ours. For a
/// kind of stage its options and the keys common to all stages; for a kind of a sub-mapping ("train/optimizer/adam")
/// its options; for "recipe" what a recipe is once it is composed, with every kind in it. A name that is none of these
/// is a kUnknownKind with the nearest, or all there are.
Result<nlohmann::ordered_json> published_schema(const SchemaSet& schemas, std::string_view name);

/// What `retort schema --editor [GROUP]` prints: what one file may say, as it is written. For "recipe", recipes; for a
/// group ("train", "model/backbone"), its options. A file is checked before it is composed, so anything may be an
/// interpolation or ???, nothing is required, and a mapping whose kind stands elsewhere must fit one of the kinds.
Result<nlohmann::ordered_json> editor_schema(const SchemaSet& schemas, std::string_view group);

/// The names that editor_schema() takes: "recipe", the families, the folders of kinds of sub-mappings.
std::vector<std::string> editor_groups(const SchemaSet& schemas);

}  // namespace runner
