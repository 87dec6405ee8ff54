#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/config/config_files.h"
#include "runner/parent/config/defaults_list.h"

namespace runner {

/// Views of a recipe's composition, as text and as JSON.

/// Returns the configs in merge order, one per line: name, package, the config that includes it,
/// file.
std::string defaults_text(const DefaultsList& list);
nlohmann::ordered_json defaults_json(const DefaultsList& list);

/// Returns the defaults lists as a tree, with the chosen options.
std::string defaults_tree_text(const DefaultsList& list);
nlohmann::ordered_json defaults_tree_json(const DefaultsList& list);

/// Returns the folders searched for configs, nearest first, including missing ones.
std::string search_path_text(const ConfigFiles& configs);
nlohmann::ordered_json search_path_json(const ConfigFiles& configs);

}  // namespace runner
