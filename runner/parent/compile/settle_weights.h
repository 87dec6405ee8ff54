#pragma once

#include <filesystem>

#include "runner/shared/error/diagnostic.h"
#include "runner/parent/schema/schema.h"

namespace runner {

/// Gives the options of each backbone in `recipe`, validated and with its defaults filled in, that nobody wrote the
/// values of the config.json beside its weights, with their places there, which are added to `sources`. Returns every
/// option that was written and contradicts it. Weights that are not there, or have no config, change nothing. Relative
/// paths of weights stand in `folder`; empty: in the current one.
/// A data stage whose image_size is auto, or that nobody wrote, gets what these configs say, or what the backbones do.
Diagnostics settle_by_weights(Value& recipe, const SchemaSet& schemas, Sources& sources,
                              const std::filesystem::path& folder = {});

}  // namespace runner
