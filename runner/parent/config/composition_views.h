#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/config/config_files.h"
#include "runner/parent/config/defaults_list.h"

namespace runner {

/// Views of how a recipe is composed, for people and as JSON.

/// The configs in the order in which they are merged, a line each: name, package, the config that
/// names it, file.
std::string defaults_text(const DefaultsList& list);
nlohmann::ordered_json defaults_json(const DefaultsList& list);

/// The defaults lists as a tree, with the options chosen.
std::string defaults_tree_text(const DefaultsList& list);
nlohmann::ordered_json defaults_tree_json(const DefaultsList& list);

/// The folders in which configs are looked for, nearest first, and those that are not there.
std::string search_path_text(const ConfigFiles& configs);
nlohmann::ordered_json search_path_json(const ConfigFiles& configs);

}  // namespace runner
