#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

// Hydra's settings of itself, below the key `hydra`, as far as recipes and command lines written
// for it use them.

/// Names further folders of configs.
inline constexpr const char* kSearchPath = "hydra.searchpath";

/// What a setting is called here: run.dir for hydra.run.dir; nullopt when it is none or has no
/// counterpart.
std::optional<std::string> hydra_counterpart(const std::string& hydra_key);

/// Is it a setting that is not understood here?
bool is_foreign_setting(const std::string& key);
Diagnostic foreign_setting(const Override& override);

/// Adds what hydra.searchpath=[dir, file:///dir] names to `folders`.
void add_hydra_search_path(std::span<const Override> overrides,
                           std::vector<std::filesystem::path>& folders, Diagnostics& errors);

/// Takes a `hydra:` block out of the recipe: what it sets that has a counterpart is set, unless the
/// recipe says it itself; the rest is said to have no effect. Without a schema nothing is run, and
/// nothing is set or said.
void take_hydra_block(Value& recipe, bool has_schema, Diagnostics& warnings);

}  // namespace runner
