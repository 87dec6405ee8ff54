#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/config/compose.h"
#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/disk/file_digests.h"

namespace runner {

/// What can be typed about a recipe after the overrides before the cursor: its keys, groups and
/// aliases, by name. Broken overrides are ignored. Everything borrowed must outlive it.
class Outline {
 public:
  Outline(Composer& composer, std::span<const std::string> overrides, const SchemaSet& schemas,
          Sources& sources);

  struct Group {
    std::string key;         ///< as an override names it: "model/backbone", "db@source"
    bool is_listed = false;  ///< the defaults list has it, so that a plain key=option may choose
    std::optional<std::string> chosen = {};  ///< nullopt: no option is chosen
  };
  /// Sorted by key.
  const std::vector<Group>& groups() const { return groups_; }
  const Group* group(std::string_view key) const;
  std::vector<std::string> options(const Group& group) const;
  const ConfigFiles& configs() const { return composer_.configs(); }
  const std::vector<Alias>& aliases() const { return composer_.aliases(); }

  /// The recipe composed so far, with interpolations as written; an empty mapping if nothing
  /// composes.
  const Value& recipe() const { return recipe_; }
  /// The keys below the dotted `key` ("" for the root), written or declared, sorted.
  std::vector<std::string> keys_below(const std::string& key) const;
  /// What the schemas know about a dotted key.
  KeyChoices choices(const std::string& key) const;

  /// The dotted key, or the group, that `key` means. The longest matching alias is replaced by the
  /// first of its targets. An alias that maps values means none.
  std::string meant(const std::string& key) const;

 private:
  Composer& composer_;
  const SchemaSet& schemas_;
  Value recipe_{Value::Map{}, {}};
  bool has_schema_ = true;
  std::vector<Group> groups_;
};

/// A word that may replace the one being typed. If it ends in '=', '.', '/' or ',', more is to
/// follow.
struct Candidate {
  std::string text;
  std::string description = {};  ///< a few words shown next to it; may be empty

  auto operator<=>(const Candidate&) const = default;
};

using Candidates = std::vector<Candidate>;

/// Completes `word`, an override that has its '=': the options of a group, what a schema or an
/// alias lists, or the files and folders of a path. In a list of values, a,b or [a,b], completes
/// the last one.
Candidates complete_override_value(std::string_view word, const Outline& outline,
                                   const FileSystem& files);

/// The files whose path begins with `typed` and ends in `ending`, and folders, which end in '/'.
/// Hidden ones are left out unless their dot was typed.
Candidates complete_path(const FileSystem& files, std::string_view typed, std::string_view ending);

/// Folders only.
Candidates complete_folder(const FileSystem& files, std::string_view typed);

}  // namespace runner
