#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/config/override.h"
#include "runner/file_system.h"
#include "runner/result.h"
#include "runner/value.h"

namespace runner {

/// Is `path` a key that the schemas declare at that place of `recipe`? Its default if so; nullopt if not.
/// SchemaSet::declared is one. A plain key=value may set such a key, and an interpolation may read its default.
using Declared = std::function<std::optional<Value>(const Value& recipe, std::span<const std::string> path)>;

/// The keys that the schemas declare in the mapping at `path`; used for "did you mean" only.
using DeclaredKeys = std::function<std::vector<std::string>(const Value& recipe, std::span<const std::string> path)>;

/// The value of an environment variable; nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Environment's usual choice: the process's own.
std::optional<std::string> process_environment(const std::string& name);

/// What to compose: a recipe by name or file, and what the command line says about it.
struct ComposeRequest {
  std::string recipe;                              ///< "classify", or a path ending in .yaml
  std::vector<std::string> overrides;              ///< as typed: "train.epochs=5", "model=tiny", "+a=1", "~b"
  std::vector<std::filesystem::path> search_path;  ///< roots that hold experiments/ and recipes/, nearest first
  Environment environment = process_environment;
  DeclaredKeys declared_keys = {};  ///< may be empty
};

/// A recipe put together. Locations point into the files and overrides it came from.
struct Composition {
  std::filesystem::path file;  ///< the primary file
  Value unresolved;            ///< defaults merged, overrides applied, interpolations as written
  Value recipe;                ///< the same with interpolations resolved; ${item.*} is left for compile()
  Diagnostics warnings;
  std::vector<Value> layers;        ///< what was merged, in that order: each config's keys, where its package puts them
  std::vector<Override> overrides;  ///< what was applied after them
};

/// Reads the recipe, follows its defaults list, applies aliases and overrides, resolves interpolations.
/// Everything wrong is reported at once as far as one mistake does not hide the next.
Result<Composition> compose(const ComposeRequest& request, const FileSystem& files, const Declared& declared,
                            Sources& sources);

}  // namespace runner
