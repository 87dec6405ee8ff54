#pragma once

#include <string>
#include <vector>

#include "runner/parent/config/config_files.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// An item of a defaults list. Names and options may contain ${group}, which stands for the option
/// chosen for that group.
struct DefaultsItem {
  enum class Kind {
    kSelf,      ///< _self_: the config that contains the list
    kConfig,    ///< another config: "classify"
    kGroup,     ///< an option of a config group: {data: flowers12}
    kOverride,  ///< another option for a group of an earlier item: {override data: cub200}
  };
  Kind kind = Kind::kSelf;
  /// The name of the config or group, relative to the root: "classify", "model/backbone".
  std::string name = {};
  std::string package = {};  ///< below the list's own package: the group as written, or the text
                             ///< after @
  bool has_package = false;  ///< written with @, so it overrides the option's "# @package" header
  std::vector<std::string> options = {};  ///< chosen for a group: usually one; none for null
  bool is_list = false;    ///< the options are a list, possibly with only one item, so ${group}
                           ///< cannot refer to them
  bool mandatory = false;  ///< ???: the user must choose
  bool optional = false;   ///< a missing config is skipped
  Location where = {};     ///< the location of the option, or of the whole item
  bool from_command_line = false;

  bool has_interpolation() const;
};

/// Returns the key for a group in overrides and messages: the group and, unless `package` is the
/// group's own, @ and the absolute package.
std::string choice_key(const std::string& group, const std::string& package);

/// Returns the absolute package of `item` in the defaults list of a config with the package
/// `parent`.
std::string package_below(const std::string& parent, const DefaultsItem& item);

/// Reads the `defaults` of `document`, a config in `group` ("" at the top). If `_self_`
/// is missing, adds it at the end. Errors are added to `errors`.
std::vector<DefaultsItem> read_defaults(const ConfigDocument& document, const std::string& group,
                                        Diagnostics& errors);

/// Merges `over` into `base`: mappings are merged key by key, base's keys first; lists and scalars
/// replace the old value; `???` never replaces a value. Merging a list with a mapping is an error,
/// added to `errors`; `pointer` is the location of `base` in the recipe.
void merge(Value& base, Value over, const std::string& pointer, Diagnostics& errors);

/// True if `value` is the string `???`, which must be replaced.
bool is_mandatory(const Value& value);

/// True if `value` is a string with `${`, so its final value is known only after resolving.
bool is_interpolation(const Value& value);

/// Returns the error for merging a list with a mapping: `over` cannot replace `base`.
Diagnostic container_clash(const Value& base, const Value& over, const std::string& pointer);

}  // namespace runner
