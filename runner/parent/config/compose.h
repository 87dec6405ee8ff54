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
#include "runner/parent/keys/recipe_keys.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Returns the value of an environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The default Environment: reads the environment of this process.
std::optional<std::string> process_environment(const std::string& name);

/// What to compose: a recipe by name or file, and the command line's overrides.
struct ComposeRequest {
  std::string recipe;                  ///< "classify", or a path ending in .yaml
  std::vector<std::string> overrides;  ///< as typed: "train.epochs=5", "model=tiny", "+a=1", "~b"
  std::vector<std::filesystem::path>
      config_folders;  ///< folders that contain configs and their groups, highest priority first
  Environment environment = process_environment;
  std::chrono::system_clock::time_point now =
      std::chrono::system_clock::now();  ///< the time used by every ${now:...}
  bool strict = false;                   ///< treat every warning as an error
};

/// A composed recipe. Locations point into its files and overrides.
struct Composition {
  std::filesystem::path file;  ///< the primary file
  Value unresolved;            ///< defaults merged, overrides applied, interpolations not resolved
  /// True for a recipe, which has `schema:`; false for any other document, which is composed by
  /// Hydra's rules.
  bool has_schema = false;
  DefaultsList defaults = {};  ///< the composed configs and the chosen options
  /// The keys of each config, nested at its package, in merge order.
  std::vector<Value> layers = {};
  std::vector<Override> overrides = {};  ///< the overrides applied after merging
  std::vector<std::string> typed = {};   ///< the overrides as typed, without secrets; for records
  Diagnostics warnings = {};
};

/// A recipe opened for composing, once or for every trial of a sweep: its files are read once, and
/// aliases are applied to the typed overrides.
///
///   auto composer = Composer::open(request, files, schemas, sources);
///   auto composition = composer->compose_once();
///   auto recipe = composer->validated(*composition);
class Composer {
 public:
  /// Fails only if there is no such recipe or there are too many overrides; compose() reports all
  /// other errors. Arguments passed by reference must outlive the Composer.
  static Result<Composer> open(ComposeRequest request, const FileSystem& files,
                               const RecipeKeys& schemas, Sources& sources);

  /// The overrides that could be parsed, with aliases replaced; some may be sweeps.
  const std::vector<Override>& overrides() const { return overrides_; }
  /// The recipe's own file.
  const std::filesystem::path& file() const { return file_; }
  /// The folders and files from which configs are read.
  const ConfigFiles& configs() const { return *configs_; }
  const std::vector<Alias>& aliases() const { return aliases_; }
  /// The errors in the recipe's aliases and in the overrides as typed.
  const Diagnostics& errors() const { return errors_; }

  /// Follows the defaults lists, merges the configs and applies `overrides`, none of which may be a
  /// sweep. Reports as many errors at once as possible, including schema errors in the parts that
  /// could be composed.
  Result<Composition> compose(std::span<const Override> overrides);

  /// Composes a single run from the overrides as typed. Sweeps are errors.
  Result<Composition> compose_once();

  /// Returns the composition with interpolations resolved (interpolation.h), for documents that no
  /// schema describes. Adds warnings about deprecated keys to `warnings`.
  Result<Value> resolve(const Composition& composition, Diagnostics* warnings = nullptr) const;

  /// Returns the composition as a recipe: interpolations resolved, checked against the schemas, and
  /// defaults filled in. Every recipe is validated here and nowhere else. A mandatory value that is
  /// still missing is an error, reported together with the schema errors of the rest.
  Result<Value> validated(const Composition& composition, Diagnostics* warnings = nullptr) const;

 private:
  Composer(ComposeRequest request, const RecipeKeys& schemas, Sources& sources)
      : request_(std::move(request)), schemas_(schemas), sources_(sources) {}

  const RecipeKeys& keys_of(const Composition& composition) const;
  Value resolved(const Composition& composition, Diagnostics* warnings, Diagnostics& errors) const;
  Diagnostics other_errors(const Composition& composition) const;

  ComposeRequest request_;
  const RecipeKeys& schemas_;
  Sources& sources_;
  std::unique_ptr<ConfigFiles> configs_;
  std::filesystem::path file_;
  std::string name_;                         // the name of the primary config; used in messages
  const ConfigDocument* primary_ = nullptr;  // null if its file is invalid
  std::vector<Alias> aliases_;
  std::vector<Override> overrides_;
  std::vector<std::string> typed_;  // without secrets
  Diagnostics errors_;
};

/// Composes the recipe with the overrides in `words`, as typed, skipping those that cannot be
/// parsed or applied. Used to complete an unfinished command line. A sweep counts as its first
/// value. Returns nullopt if the recipe does not compose even without overrides. `composer` must
/// have been opened without overrides. `sources` must outlive the composition.
std::optional<Composition> compose_leniently(Composer& composer, std::span<const std::string> words,
                                             Sources& sources);

}  // namespace runner
