#pragma once

#include <string>
#include <vector>

#include "runner/config/config_files.h"
#include "runner/diagnostic.h"

namespace runner {

/// One item of a defaults list.
struct DefaultsItem {
  enum class Kind {
    kSelf,      ///< _self_: the config that holds the list
    kConfig,    ///< another config: "classify"
    kGroup,     ///< an option of a config group: {data: flowers12}
    kOverride,  ///< another option for a group that an earlier item has: {override data: cub200}
  };
  Kind kind = Kind::kSelf;
  std::string name = {};     ///< of the config or the group, from the root: "classify", "model/backbone"
  std::string package = {};  ///< the group as written, which is where its keys go below the list's own package
  std::vector<std::string> options = {};  ///< of a group: usually one; none for null
  bool mandatory = false;                 ///< ???: someone must choose
  bool optional = false;                  ///< a missing config is passed over
  Location where = {};                    ///< of the option, or the whole item
  bool from_command_line = false;
};

/// Reads the `defaults` of `document`, a config of the group `group` ("" at the top). Without a `_self_` one is added
/// at the end. What cannot be understood is added to `errors`.
std::vector<DefaultsItem> read_defaults(const ConfigDocument& document, const std::string& group, Diagnostics& errors);

}  // namespace runner
