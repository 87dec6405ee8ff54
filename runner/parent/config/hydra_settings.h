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

// Hydra's own settings, below the key `hydra`, those that recipes and command lines written for
// Hydra use.

/// Lists further folders of configs.
inline constexpr const char* kSearchPath = "hydra.searchpath";

/// The name of a setting here: run.dir for hydra.run.dir; nullopt if it is not a setting or has no
/// counterpart.
std::optional<std::string> hydra_counterpart(const std::string& hydra_key);

/// True for a setting that is not supported here.
bool is_foreign_setting(const std::string& key);
Diagnostic foreign_setting(const Override& override);

/// Adds the folders of hydra.searchpath=[dir, file:///dir] to `folders`.
void add_hydra_search_path(std::span<const Override> overrides,
                           std::vector<std::filesystem::path>& folders, Diagnostics& errors);

/// Removes a `hydra:` block from the recipe. Applies settings that have a counterpart, unless the
/// recipe sets that itself; warns that the others have no effect. Without a schema nothing is run,
/// so nothing is set or reported.
void take_hydra_block(Value& recipe, bool has_schema, Diagnostics& warnings);

}  // namespace runner
