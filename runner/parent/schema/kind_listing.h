#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// The ports of a kind, a line for its inputs and one for its outputs, where it has any.
std::string ports_text(const Kind& kind, const std::string& margin);

/// {"name", "family", "summary", "version", "inputs": [...], "outputs": [...], "cacheable"}.
nlohmann::ordered_json kind_json(const Kind& kind);

/// What `retort stages` prints: every kind with its summary and ports, grouped by family.
std::string stages_text(const SchemaSet& schemas);

/// The same for `--json`: {"kinds": [{"name", "family", "summary", "version", "inputs": [{"name", "type", "optional",
/// "many"}], "outputs": [{"name", "type"}], "cacheable"}]}.
nlohmann::ordered_json stages_json(const SchemaSet& schemas);

}  // namespace runner
