#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/config/config_files.h"
#include "runner/config/override.h"

namespace runner {

/// A config in the order in which they are merged.
struct ConfigPart {
  const ConfigDocument* document;
  std::string package;  ///< where its keys go, "model.backbone"; empty for the root
};

/// Follows the defaults list of `primary` and of every config it leads to, depth first. `choices` are the overrides
/// whose key is a config group: group=option takes another option, +group=option adds one, ++group=option does
/// either, ~group drops it; they beat the files' own `override` items, of which the last one wins.
Result<std::vector<ConfigPart>> build_defaults(ConfigFiles& files, const ConfigDocument& primary,
                                               std::span<const Override> choices);

}  // namespace runner
