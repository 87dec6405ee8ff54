#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/config/compose.h"

namespace runner {

/// The composition with as many of `words`, overrides as typed, as can be read and applied: for a command line that is
/// still being typed. A sweep counts as its first value. Nullopt: the recipe does not compose even without overrides.
/// `composer` was opened without them. `sources` must outlive the composition.
std::optional<Composition> compose_leniently(Composer& composer, std::span<const std::string> words, Sources& sources);

}  // namespace runner
