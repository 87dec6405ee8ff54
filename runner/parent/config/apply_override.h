#pragma once

#include <span>

#include "runner/parent/config/alias.h"
#include "runner/parent/config/override.h"
#include "runner/parent/keys/recipe_keys.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Applies `overrides` to a composed recipe, in order, following Hydra's rules: key=value changes a
/// key that exists or that `keys` declares, +key adds a new key, ++key does either, and ~key
/// deletes a key. Returns an error for each override that could not be applied, and a warning for
/// each mapping that was replaced by a scalar. `aliases` are suggested for misspelled keys.
Diagnostics apply_overrides(Value& recipe, std::span<const Override> overrides,
                            const RecipeKeys& keys, std::span<const Alias> aliases = {});

}  // namespace runner
