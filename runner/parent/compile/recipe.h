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

/// Fills in options of each backbone in `recipe`, which must be validated and have its defaults
/// filled in. Options not set by the user get their values and locations from the config.json
/// next to the weights; its text is added to `sources`. Returns an error for every option
/// that the user has set and that contradicts the config. Missing weights and weights without a
/// config have no effect. Relative paths of weights are resolved against `folder`, or against the
/// current folder if it is empty. If image_size of a data stage is auto or not set, it becomes the
/// size on which all backbones agree. A backbone's size comes from its own option or else from its
/// config; if no backbone has one, image_size becomes 224, except where pixels_from_network() asks
/// a Python network (network_pixels.h).
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
  std::optional<int> threads;  ///< nullopt for auto
  Determinism determinism = Determinism::kStrict;
  int ranks = 1;                           ///< device.count
  std::int64_t collective_timeout = 1800;  ///< device.collective_timeout_seconds
  std::string device;                      ///< "auto", "cpu", "cuda", "cuda:K"
  std::string run_dir;                     ///< empty: outputs/<date>/<time>
  std::string only;                        ///< run.only; empty: the whole graph
  bool has_tensorboard = false;            ///< run.tensorboard
  bool has_mlflow = false;                 ///< run.mlflow
  std::vector<StageSpec> stages;           ///< in the order in which the recipe lists them
  Value resolved;  ///< the whole recipe with defaults filled in, as recorded
};

/// Returns the hexadecimal SHA-256 of a resolved recipe as JSON with sorted keys, so key order does
/// not matter.
std::string recipe_hash(const Value& resolved);

/// Makes a Recipe from `valid`, which must be validated and have all defaults filled in
/// (Composer::validated()): expands ~ in paths, fills in values from the configs of weights, and
/// reads the reserved keys. The texts of the configs are added to `sources`; if it is null, no
/// configs are read. Relative paths of weights are resolved against `folder`, or against the
/// current folder if it is empty.
Result<Recipe> make_recipe(Value valid, const SchemaSet& schemas, Sources* sources = nullptr,
                           const std::filesystem::path& folder = {});

/// Returns the notice in a resolved recipe for anyone who uses its results; empty if there is none.
std::string notice_of(const Value& resolved);

/// Returns the number of processes that train together in a run of the recipe (device.count). Each
/// of them uses the recipe's number of threads and the planned memory.
std::int64_t ranks_of(const Value& resolved);
/// True if that number is still to be chosen (device.count: auto); ranks_of() is then 1.
bool chooses_ranks(const Value& resolved);

/// Replaces a leading "~" of `path`, as in "~" or "~/…", with the home folder. Leaves other paths
/// unchanged.
std::string with_home(const std::string& path);

/// Applies with_home() to all path options of the resolved recipe. Returns an error for syntax that
/// only a shell expands, since Retort would use a folder with that literal name: "~anna/…",
/// "$HOME/…", and "a/~/b" as the folder of a run or sweep. A URL as that folder is also an error,
/// as is ~ without HOME.
Diagnostics expand_home(Value& resolved, const SchemaSet& schemas);

}  // namespace runner
