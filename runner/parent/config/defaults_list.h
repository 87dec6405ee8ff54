#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/config/config_files.h"
#include "runner/parent/config/override.h"

namespace runner {

/// A config in the merge order.
struct ConfigPart {
  std::string name;  ///< "model/tiny"
  const ConfigDocument* document;
  std::string package;  ///< where its keys go, "model.backbone"; empty for the root
  std::string parent;   ///< the config that includes it in its defaults list; empty for the primary
};

/// The choice for a group in the defaults lists.
struct GroupChoice {
  std::string key;                    ///< the key in an override: "model/backbone", "db@source"
  std::optional<std::string> option;  ///< nullopt for null
};

/// An item of the defaults lists and the items below it.
struct DefaultsNode {
  std::string text;  ///< "classify", "model: tiny", "_self_"
  std::vector<DefaultsNode> children = {};
};

struct DefaultsList {
  std::vector<ConfigPart> parts;
  std::vector<GroupChoice> choices;  ///< excludes lists of options and configs included by name
  DefaultsNode tree;
  /// Overrides ~key and key=null that refer to values: no defaults list has the group `key`, but
  /// the configs contain such a key.
  std::vector<Override> about_values;
};

/// Follows the defaults list of `primary` (the config `name`) and of every config it includes,
/// depth first. `choices` are the overrides for groups: group=option selects a different option,
/// +group=option adds one, ++group=option does either, and group=null and ~group remove it. They
/// take precedence over the files' own `override` items, among which the last one wins. The
/// algorithm is Hydra 1.4's, with these differences: a primary config keeps its own content
/// regardless of its list, ~group before +group=option replaces the group, ~group also removes a
/// list of options, and a key named like a group can be deleted if no list contains that group.
Result<DefaultsList> build_defaults(ConfigFiles& files, const ConfigDocument& primary,
                                    const std::string& name, std::span<const Override> choices);

}  // namespace runner
