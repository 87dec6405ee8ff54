#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/config/alias.h"
#include "runner/parent/config/config_files.h"
#include "runner/parent/config/defaults_list.h"
#include "runner/parent/config/override.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// If the schemas declare a key at `path` of `recipe`: its default; else nullopt.
/// SchemaSet::declared is one. A plain key=value may set such a key, and an interpolation may read
/// its default.
using Declared =
    std::function<std::optional<Value>(const Value& recipe, std::span<const std::string> path)>;

/// The keys that the schemas declare in the mapping at `path`; only for "did you mean".
using DeclaredKeys =
    std::function<std::vector<std::string>(const Value& recipe, std::span<const std::string> path)>;

/// True if the schemas accept +path=value for a single value at a path that is not written.
using MayAdd = std::function<bool(const Value& recipe, std::span<const std::string> path)>;

/// The kinds that have the key at `path`, if the mapping around it is of another kind; for advice.
using OtherKinds =
    std::function<std::vector<std::string>(const Value& recipe, std::span<const std::string> path)>;

/// Returns the schema errors of a recipe. SchemaSet::validate() is one, on a copy.
using Validate = std::function<Diagnostics(Value recipe)>;

/// What the schemas say about keys in addition to their defaults. Each member may be empty.
struct SchemaKeys {
  DeclaredKeys declared = {};
  MayAdd may_add = {};  ///< empty: any
  OtherKinds other_kinds = {};
};

/// The value of an environment variable; nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The usual Environment: that of this process.
std::optional<std::string> process_environment(const std::string& name);

/// What to compose: a recipe by name or file, and the command line's overrides.
struct ComposeRequest {
  std::string recipe;                  ///< "classify", or a path ending in .yaml
  std::vector<std::string> overrides;  ///< as typed: "train.epochs=5", "model=tiny", "+a=1", "~b"
  std::vector<std::filesystem::path>
      search_path;  ///< roots with experiments/ and recipes/, nearest first
  std::vector<std::filesystem::path> config_folders =
      {};  ///< folders that contain configs directly; searched before all roots
  Environment environment = process_environment;
  std::chrono::system_clock::time_point now =
      std::chrono::system_clock::now();  ///< the time that every ${now:...} uses
  DeclaredKeys declared_keys = {};       ///< may be empty
  MayAdd may_add = {};                   ///< may be empty
  OtherKinds other_kinds = {};           ///< may be empty
  Validate validate = {};  ///< called when composition has already found an error, so that all are
                           ///< reported at once; may be empty
  bool strict = false;     ///< treat every warning as an error
};

/// A composed recipe. Locations point into its files and overrides.
struct Composition {
  std::filesystem::path file;  ///< the primary file
  Value unresolved;            ///< defaults merged, overrides applied, interpolations not resolved
  bool has_schema =
      false;  ///< it has `schema:`, so it is a recipe; else any document, composed by Hydra's rules
  DefaultsList defaults = {};  ///< the configs it was composed from, and the choices
  std::vector<Value> layers =
      {};  ///< the merged parts, in merge order: each config's keys, placed at its package
  std::vector<Override> overrides = {};  ///< the overrides applied after them
  std::vector<std::string> typed = {};   ///< the overrides as typed, without secrets; for records
  Diagnostics warnings = {};
};

/// A recipe opened for composing, once or for every trial of a sweep: its files are read once, and
/// aliases are applied to the typed overrides.
///
///   auto composer = Composer::open(request, files, declared, sources);
///   auto composition = composer->compose_once();
class Composer {
 public:
  /// Fails only if there is no such recipe; compose() reports all other errors. Arguments passed by
  /// reference must outlive the Composer.
  static Result<Composer> open(ComposeRequest request, const FileSystem& files, Declared declared,
                               Sources& sources);

  /// The overrides that could be parsed, with aliases replaced; some may be sweeps.
  const std::vector<Override>& overrides() const { return overrides_; }
  /// The recipe's own file.
  const std::filesystem::path& file() const { return file_; }
  /// The folders and files that configs come from.
  const ConfigFiles& configs() const { return *configs_; }
  const std::vector<Alias>& aliases() const { return aliases_; }
  /// The errors in the recipe's aliases and in the overrides as typed.
  const Diagnostics& errors() const { return errors_; }

  /// Follows the defaults lists, merges, and applies `overrides`, none of which may be a sweep.
  /// Reports all errors at once if one does not hide the next, together with the schema errors of
  /// the rest.
  Result<Composition> compose(std::span<const Override> overrides);

  /// Composes a single run from the overrides as typed; rejects sweeps.
  Result<Composition> compose_once();

  /// The composition with interpolations resolved (interpolation.h). A mandatory value that is
  /// still missing is an error, reported together with the schema errors of the rest. Warnings
  /// about deprecated keys are added to `warnings`.
  Result<Value> resolve(const Composition& composition, Diagnostics* warnings = nullptr) const;

 private:
  Composer(ComposeRequest request, Declared declared, Sources& sources)
      : request_(std::move(request)), declared_(std::move(declared)), sources_(sources) {}

  Diagnostics other_errors(const Composition& composition) const;

  ComposeRequest request_;
  Declared declared_;
  Sources& sources_;
  std::unique_ptr<ConfigFiles> configs_;
  std::filesystem::path file_;
  std::string name_;                         // of the primary config; used in messages
  const ConfigDocument* primary_ = nullptr;  // null: its file is invalid
  std::vector<Alias> aliases_;
  std::vector<Override> overrides_;
  std::vector<std::string> typed_;  // without secrets
  Diagnostics errors_;
};

/// Composes with as many of `words`, overrides as typed, as can be parsed and applied: for
/// completion of an unfinished command line. A sweep counts as its first value. Returns nullopt if
/// the recipe does not compose even without overrides. `composer` was opened without them.
/// `sources` must outlive the composition.
std::optional<Composition> compose_leniently(Composer& composer, std::span<const std::string> words,
                                             Sources& sources);

}  // namespace runner
