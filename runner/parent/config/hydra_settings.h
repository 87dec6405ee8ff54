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

// The settings below Hydra's own key `hydra` that are used in recipes and command lines written for
// Hydra.

/// The key that lists additional config folders.
inline constexpr const char* kSearchPath = "hydra.searchpath";

/// Returns Retort's key for a Hydra setting, such as run.dir for hydra.run.dir; nullopt if
/// `hydra_key` is not a setting or has no counterpart.
std::optional<std::string> hydra_counterpart(const std::string& hydra_key);

/// True for a Hydra setting that Retort does not support.
bool is_foreign_setting(const std::string& key);
Diagnostic foreign_setting(const Override& override);

/// Adds the folders of hydra.searchpath=[dir, file:///dir] to `folders`.
void add_hydra_search_path(std::span<const Override> overrides,
                           std::vector<std::filesystem::path>& folders, Diagnostics& errors);

/// Removes the `hydra:` block from the recipe. Applies each setting that has a counterpart, unless
/// the recipe sets the counterpart itself, and warns that the others have no effect. Without a
/// schema, nothing is run, so nothing is set or reported.
void take_hydra_block(Value& recipe, bool has_schema, Diagnostics& warnings);

}  // namespace runner
