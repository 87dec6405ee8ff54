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

/// The keys, groups and aliases of a recipe that can be typed, given the overrides before the
/// cursor. Invalid overrides are ignored. The composer, the schemas and the sources must outlive
/// it.
class Outline {
 public:
  Outline(Composer& composer, std::span<const std::string> overrides, const SchemaSet& schemas,
          Sources& sources);

  struct Group {
    std::string key;         ///< as written in an override: "model/backbone", "db@source"
    bool is_listed = false;  ///< it is in the defaults list, so key=option needs no '+'
    std::optional<std::string> chosen = {};  ///< nullopt: no option is chosen
  };
  /// Sorted by key.
  const std::vector<Group>& groups() const { return groups_; }
  const Group* group(std::string_view key) const;
  std::vector<std::string> options(const Group& group) const;
  const ConfigFiles& configs() const { return composer_.configs(); }
  const std::vector<Alias>& aliases() const { return composer_.aliases(); }

  /// Returns the recipe composed so far, with interpolations unresolved; an empty mapping if it
  /// does not compose.
  const Value& recipe() const { return recipe_; }
  /// Returns the keys below the dotted `key` ("" for the root) that the recipe has or a schema
  /// declares, sorted.
  std::vector<std::string> keys_below(const std::string& key) const;
  /// Returns what the schemas declare about a dotted key.
  KeyChoices choices(const std::string& key) const;

  /// Returns the dotted key or group that `key` refers to, with the longest matching alias replaced
  /// by the first of its targets. Returns "" for an alias that has no target key, only overrides
  /// for some values.
  std::string meant(const std::string& key) const;

 private:
  Composer& composer_;
  const SchemaSet& schemas_;
  Value recipe_{Value::Map{}, {}};
  bool has_schema_ = true;
  std::vector<Group> groups_;
};

/// A word that may replace the one being typed. If it ends in '=', '.', '/' or ',', more input is
/// expected.
struct Candidate {
  std::string text;
  std::string description = {};  ///< a short description shown next to it; may be empty

  auto operator<=>(const Candidate&) const = default;
};

using Candidates = std::vector<Candidate>;

/// Completes the value in `word`, an override with an '=', to the options of a group, to the values
/// listed by a schema or an alias, or to files and folders. In a list of values, a,b or [a,b],
/// completes the last one.
Candidates complete_override_value(std::string_view word, const Outline& outline,
                                   const FileSystem& files);

/// Returns the files with a path that begins with `typed` and ends in `ending`, and the folders
/// with a path that begins with `typed`, each ending in '/'. Hidden ones are included only if the
/// leading dot was typed.
Candidates complete_path(const FileSystem& files, std::string_view typed, std::string_view ending);

/// Like complete_path(), but returns only folders.
Candidates complete_folder(const FileSystem& files, std::string_view typed);

}  // namespace runner
