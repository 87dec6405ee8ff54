#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/determinism.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Fills in options of each backbone in `recipe`, which is validated and has its defaults: options
/// that the user has not written get the values of the config.json next to the weights, with their
/// places there, which are added to `sources`. Returns an error for every written option that
/// contradicts it. Weights that are missing, or have no config, change nothing. Relative paths of
/// weights are resolved against `folder`; empty: the current folder. If image_size of a data stage
/// is auto or not written, it is set from these configs, or else from the backbones.
Diagnostics fill_in_from_weights(Value& recipe, const SchemaSet& schemas, Sources& sources,
                                 const std::filesystem::path& folder = {});

/// One top-level mapping with a `kind`.
struct StageSpec {
  std::string name;  ///< the key, e.g. "train"
  Location name_where;
  std::string kind;
  Value options;  ///< the whole mapping, defaults filled in
};

/// The validated, typed view of a recipe.
struct Recipe {
  std::string name;
  std::uint64_t seed = 0;
  std::optional<int> threads;  ///< nullopt: auto
  Determinism determinism = Determinism::kStrict;
  int ranks = 1;                  ///< device.count
  std::string device;             ///< "auto", "cpu", "cuda", "cuda:K"
  std::string run_dir;            ///< empty: outputs/<date>/<time>
  std::vector<StageSpec> stages;  ///< in the order written
  Value resolved;                 ///< everything, with defaults filled in: this is recorded
};

/// The SHA-256 in hexadecimal of a resolved recipe as JSON with sorted keys, so key order does not
/// matter.
std::string recipe_hash(const Value& resolved);

/// Reads a recipe that is validated and has every default (Composer::validated()): expands ~ in
/// paths, fills in values from the configs of weights (their texts are added to `sources`; null:
/// configs are not read), and reads the reserved keys. Relative paths of weights are resolved
/// against `folder`; empty: the current folder.
Result<Recipe> make_recipe(Value valid, const SchemaSet& schemas, Sources* sources = nullptr,
                           const std::filesystem::path& folder = {});

/// The notice of a resolved recipe, for everyone who uses its results; empty: none.
std::string notice_of(const Value& resolved);

/// The processes of a run of the recipe that train together (device.count); each has the recipe's
/// threads and the memory of its plan.
std::int64_t ranks_of(const Value& resolved);

/// Replaces a leading "~" of `path`, as in "~" or "~/…", by the home folder. Leaves other paths
/// unchanged.
std::string with_home(const std::string& path);

/// Does that for all path options of the resolved recipe, wherever they were written. Returns an
/// error for what only a shell understands, since it would create or search a folder of that
/// literal name: "~anna/…", "$HOME/…", and "a/~/b" as the folder of a run or sweep.
Diagnostics expand_home(Value& resolved, const SchemaSet& schemas);

}  // namespace runner
