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

/// Choices for groups made outside the item itself: overrides, which win, and the `override` items
/// of files, of which the first one found wins. Keys are groups as overrides name them,
/// "model/backbone" or "db@source".
class GroupChoices {
 public:
  /// Records an override that adds nothing. It is borrowed.
  void choose(const Override& override);
  /// Records the `override` item of a file.
  void choose(const DefaultsItem& item, const std::string& key);

  /// Replaces the item's option by the choice for its group `key`. False if it was deleted.
  bool apply(DefaultsItem& item, const std::string& key);
  /// True if the config `name`, which a list includes by name, is deleted.
  bool deletes(const std::string& name);

  /// ++group=option for groups that no defaults list has: removes and returns them.
  std::vector<const Override*> take_additions();
  /// Forgets the choices of files, and which choices were used, for another walk.
  void restart();
  /// Removes and returns the unused choices that select nothing and whose group is a key at the
  /// root of `parts`.
  std::vector<Override> take_about_values(const std::vector<ConfigPart>& parts);
  /// Adds errors for choices that no list has used; `chosen` is the final item of each group.
  void report_unused(const std::map<std::string, DefaultsItem>& chosen, Diagnostics& errors) const;

 private:
  struct Choice {
    std::vector<std::string> options;
    bool is_list = false;
    bool deleted = false;
    std::optional<std::string> deleted_option;  ///< ~group=option: only if this is the option
    Location where;
    const Override* override = nullptr;  ///< null: an override item of a file
    bool used = false;
  };

  std::map<std::string, Choice> choices_;
};

/// The options that an override's value names; none for null.
std::vector<std::string> chosen_options(const Value& value);

}  // namespace runner
