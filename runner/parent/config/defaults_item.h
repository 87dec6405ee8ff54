#pragma once

#include <string>
#include <vector>

#include "runner/parent/config/config_files.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// One item of a defaults list. Names and options may hold ${group}, which stands for the option
/// chosen for a group.
struct DefaultsItem {
  enum class Kind {
    kSelf,      ///< _self_: the config that holds the list
    kConfig,    ///< another config: "classify"
    kGroup,     ///< an option of a config group: {data: flowers12}
    kOverride,  ///< another option for a group that an earlier item has: {override data: cub200}
  };
  Kind kind = Kind::kSelf;
  std::string name =
      {};  ///< of the config or the group, from the root: "classify", "model/backbone"
  std::string package = {};  ///< where its keys go, below the list's own package: the group as
                             ///< written, or what follows @
  bool has_package = false;  ///< it was given by @, and so beats the option's "# @package" header
  std::vector<std::string> options = {};  ///< of a group: usually one; none for null
  bool is_list = false;  ///< the options are a list, perhaps of one: not a choice that can be named
  bool mandatory = false;  ///< ???: someone must choose
  bool optional = false;   ///< a missing config is passed over
  Location where = {};     ///< of the option, or the whole item
  bool from_command_line = false;

  bool has_interpolation() const;
};

/// What the override of a group's choice is named on a command line, and what messages call the
/// choice: the group, with @ and the package unless that is the group's own. `package` is absolute.
std::string choice_key(const std::string& group, const std::string& package);

/// The absolute package of `item` in a list whose config has the package `parent`.
std::string package_below(const std::string& parent, const DefaultsItem& item);

/// Reads the `defaults` of `document`, a config of the group `group` ("" at the top). Without a
/// `_self_` one is added at the end. What cannot be understood is added to `errors`.
std::vector<DefaultsItem> read_defaults(const ConfigDocument& document, const std::string& group,
                                        Diagnostics& errors);

/// Lays `over` over `base`: mappings merge key by key, base's keys first; lists and scalars replace
/// what is there;
/// `???` never replaces a value. A list meeting a mapping is an error, added to `errors`; `pointer`
/// is where base stands in the recipe.
void merge(Value& base, Value over, const std::string& pointer, Diagnostics& errors);

/// Is `value` the text `???`, which someone must replace?
bool is_mandatory(const Value& value);

/// Does `value` hold `${`, so that what it is is known only later?
bool is_interpolation(const Value& value);

/// The error of a list that meets a mapping: `over` cannot be put where `base` is.
Diagnostic container_clash(const Value& base, const Value& over, const std::string& pointer);

}  // namespace runner
