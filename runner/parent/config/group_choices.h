#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/defaults_list.h"
#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The options chosen for groups by overrides and by `override` items in files. Overrides win;
/// among `override` items, the first one found wins. Keys are groups as written in overrides:
/// "model/backbone" or "db@source".
class GroupChoices {
 public:
  /// Records an override other than +group=option. The override is borrowed.
  void choose(const Override& override);
  /// Records the `override` item of a file.
  void choose(const DefaultsItem& item, const std::string& key);

  /// Replaces the item's option with the choice for its group `key`. False if the choice deletes
  /// the item.
  bool apply(DefaultsItem& item, const std::string& key);
  /// True if an override deletes the config `name`, which is included in a list by name.
  bool deletes(const std::string& name);

  /// Removes and returns the overrides ++group=option for groups that no defaults list has.
  std::vector<const Override*> take_additions();
  /// Prepares for another walk: forgets the choices made by files and which choices were used.
  void restart();
  /// Removes and returns the overrides ~key and key=null that chose no group but name a key at the
  /// root of one of `parts`.
  std::vector<Override> take_about_values(const std::vector<ConfigPart>& parts);
  /// Adds an error for each choice that no list used; `chosen` is the final item of each group.
  void report_unused(const std::map<std::string, DefaultsItem>& chosen, Diagnostics& errors) const;

 private:
  struct Choice {
    std::vector<std::string> options;
    bool is_list = false;
    bool deleted = false;
    std::optional<std::string> deleted_option;  ///< ~group=option: deletes only this option
    Location where;
    const Override* override = nullptr;  ///< null for an `override` item of a file
    bool used = false;
  };

  std::map<std::string, Choice> choices_;
};

/// Returns the options named by the value of an override; none for null.
std::vector<std::string> chosen_options(const Value& value);

}  // namespace runner
