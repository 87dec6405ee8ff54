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

/// What others than an item itself chose for its group: overrides, which win, and the `override`
/// items of files, of which the first that is met wins. Keys are groups as overrides name them,
/// "model/backbone" or "db@source".
class GroupChoices {
 public:
  /// Takes in an override that adds nothing. It is borrowed.
  void choose(const Override& override);
  /// Takes in the `override` item of a file.
  void choose(const DefaultsItem& item, const std::string& key);

  /// Replaces the item's option by what was chosen for its group `key`. False when it was deleted.
  bool apply(DefaultsItem& item, const std::string& key);
  /// Is the config `name`, which a list includes by name, deleted?
  bool deletes(const std::string& name);

  /// ++group=option where no defaults list has the group: takes them out and gives them back.
  std::vector<const Override*> take_additions();
  /// Forgets what files chose, and what has been used, for another walk.
  void restart();
  /// Takes out the unused choices of nothing whose group is the name of a key at the root of
  /// `parts`.
  std::vector<Override> take_about_values(const std::vector<ConfigPart>& parts);
  /// The errors of those that no list has used, `chosen` being what each group came to.
  void report_unused(const std::map<std::string, DefaultsItem>& chosen, Diagnostics& errors) const;

 private:
  struct Choice {
    std::vector<std::string> options;
    bool is_list = false;
    bool deleted = false;
    std::optional<std::string> deleted_option;  ///< ~group=option: only if it is this
    Location where;
    const Override* override = nullptr;  ///< null: an override item of a file
    bool used = false;
  };

  std::map<std::string, Choice> choices_;
};

/// The options that an override's value names; none for null.
std::vector<std::string> chosen_options(const Value& value);

}  // namespace runner
