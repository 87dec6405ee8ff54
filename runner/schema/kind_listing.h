#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/schema/schema.h"

namespace runner {

/// What `retort stages` prints: every kind with its summary and ports, grouped by family.
std::string stages_text(const SchemaSet& schemas);

/// The same for `--json`: {"kinds": [{"name", "family", "summary", "version", "inputs": [{"name", "type", "optional",
/// "many"}], "outputs": [{"name", "type"}], "cacheable", "planned"}]}.
nlohmann::ordered_json stages_json(const SchemaSet& schemas);

/// What `retort schema [KIND]` prints: one draft-07 document that needs no other file and no keyword of ours, so that
/// an editor can complete and check with it. For a kind, its options and the keys common to all stages; for "recipe",
/// what a recipe file may hold, with every kind in it. A name that is neither is a kUnknownKind.
Result<nlohmann::ordered_json> published_schema(const SchemaSet& schemas, std::string_view name);

}  // namespace runner
