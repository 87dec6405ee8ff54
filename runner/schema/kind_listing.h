#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/schema/schema.h"

namespace runner {

/// What `retort stages` prints: every kind with its summary and ports, grouped by family.
std::string stages_text(const SchemaSet& schemas);

/// The same for `--json`: {"kinds": [{"name", "family", "summary", "version", "inputs": [{"name", "type", "optional",
/// "many"}], "outputs": [{"name", "type"}], "cacheable", "planned"}]}.
nlohmann::ordered_json stages_json(const SchemaSet& schemas);

}  // namespace runner
