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

/// Is `path` a key that the schemas declare at that place of `recipe`? Its default if so; nullopt
/// if not. SchemaSet::declared is one. A plain key=value may set such a key, and an interpolation
/// may read its default.
using Declared =
    std::function<std::optional<Value>(const Value& recipe, std::span<const std::string> path)>;

/// The keys that the schemas declare in the mapping at `path`; used for "did you mean" only.
using DeclaredKeys =
    std::function<std::vector<std::string>(const Value& recipe, std::span<const std::string> path)>;

/// Do the schemas take +path=value for a single value, where nobody has written the path?
using MayAdd = std::function<bool(const Value& recipe, std::span<const std::string> path)>;

/// The kinds that have the key at `path`, where the mapping around it is of another kind; for
/// advice.
using OtherKinds =
    std::function<std::vector<std::string>(const Value& recipe, std::span<const std::string> path)>;

/// What the schemas have against a recipe. SchemaSet::validate() is one, of a copy.
using Validate = std::function<Diagnostics(Value recipe)>;

/// What the schemas say of keys besides their defaults. Any of it may be empty.
struct SchemaKeys {
  DeclaredKeys declared = {};
  MayAdd may_add = {};  ///< empty: any
  OtherKinds other_kinds = {};
};

/// The value of an environment variable; nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Environment's usual choice: the process's own.
std::optional<std::string> process_environment(const std::string& name);

/// What to compose: a recipe by name or file, and what the command line says about it.
struct ComposeRequest {
  std::string recipe;                  ///< "classify", or a path ending in .yaml
  std::vector<std::string> overrides;  ///< as typed: "train.epochs=5", "model=tiny", "+a=1", "~b"
  std::vector<std::filesystem::path>
      search_path;  ///< roots that hold experiments/ and recipes/, nearest first
  std::vector<std::filesystem::path> config_folders =
      {};  ///< folders that hold configs themselves; before all roots
  Environment environment = process_environment;
  std::chrono::system_clock::time_point now =
      std::chrono::system_clock::now();  ///< what every ${now:...} tells
  DeclaredKeys declared_keys = {};       ///< may be empty
  MayAdd may_add = {};                   ///< may be empty
  OtherKinds other_kinds = {};           ///< may be empty
  Validate validate =
      {};  ///< asked where an error is found before, so that all are reported at once; may be empty
  bool strict = false;  ///< every warning is an error
};

/// A recipe put together. Locations point into the files and overrides it came from.
struct Composition {
  std::filesystem::path file;  ///< the primary file
  Value unresolved;            ///< defaults merged, overrides applied, interpolations as written
  bool has_schema =
      false;  ///< it has `schema:`, so it is a recipe; else any document, under Hydra's rules
  DefaultsList defaults = {};  ///< the configs it was made of, and the choices
  std::vector<Value> layers =
      {};  ///< what was merged, in that order: each config's keys, where its package puts them
  std::vector<Override> overrides = {};  ///< what was applied after them
  std::vector<std::string> typed = {};   ///< the overrides as typed, without secrets: for records
  Diagnostics warnings = {};
};

/// A recipe opened for composing, once or for every job of a sweep: its files are read once, and
/// aliases are applied to the overrides that were typed.
///
///   auto composer = Composer::open(request, files, declared, sources);
///   auto composition = composer->compose_once();
class Composer {
 public:
  /// Fails only when there is no such recipe; whatever else is wrong, compose() reports. What is
  /// passed by reference must outlive the Composer.
  static Result<Composer> open(ComposeRequest request, const FileSystem& files, Declared declared,
                               Sources& sources);

  /// The overrides that could be read, aliases replaced; some may be sweeps.
  const std::vector<Override>& overrides() const { return overrides_; }
  /// The recipe's own file.
  const std::filesystem::path& file() const { return file_; }
  /// The roots and files that configs come from.
  const ConfigFiles& configs() const { return *configs_; }
  const std::vector<Alias>& aliases() const { return aliases_; }
  /// What is wrong with the recipe's aliases and with the overrides as typed.
  const Diagnostics& errors() const { return errors_; }

  /// Follows the defaults lists, merges, and applies `overrides`, none of which may be a sweep.
  /// Everything wrong is reported at once, as far as one mistake does not hide the next; with it
  /// what the schemas have against the rest.
  Result<Composition> compose(std::span<const Override> overrides);

  /// The composition of a single run, from the overrides as typed; one that is a sweep is refused.
  Result<Composition> compose_once();

  /// The composition with interpolations resolved (interpolation.h); a mandatory value that is
  /// still missing is an error, reported with what the schemas have against the rest. Warnings, of
  /// keys that are deprecated, are added where the pointer leads.
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
  std::string name_;                         // of the primary config; what messages call it
  const ConfigDocument* primary_ = nullptr;  // null: its file is broken
  std::vector<Alias> aliases_;
  std::vector<Override> overrides_;
  std::vector<std::string> typed_;  // without secrets
  Diagnostics errors_;
};

/// The composition with as many of `words`, overrides as typed, as can be read and applied: for a
/// command line that is still being typed. A sweep counts as its first value. Nullopt: the recipe
/// does not compose even without overrides. `composer` was opened without them. `sources` must
/// outlive the composition.
std::optional<Composition> compose_leniently(Composer& composer, std::span<const std::string> words,
                                             Sources& sources);

}  // namespace runner
