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

/// Gives the options of each backbone in `recipe`, validated and with its defaults filled in, that
/// nobody wrote the values of the config.json beside its weights, with their places there, which
/// are added to `sources`. Returns every option that was written and contradicts it. Weights that
/// are not there, or have no config, change nothing. Relative paths of weights stand in `folder`;
/// empty: in the current one. A data stage whose image_size is auto, or that nobody wrote, gets
/// what these configs say, or what the backbones do.
Diagnostics fill_in_from_weights(Value& recipe, const SchemaSet& schemas, Sources& sources,
                                 const std::filesystem::path& folder = {});

class SchemaSet;

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
  std::string device;             ///< "auto", "cpu", "cuda", "cuda:K"
  std::string run_dir;            ///< empty: outputs/<date>/<time>
  std::vector<StageSpec> stages;  ///< in the order written
  Value resolved;                 ///< everything, defaults filled in: what is recorded
};

/// The SHA-256 of a resolved recipe as JSON with its keys sorted, in hexadecimal: their order says
/// nothing.
std::string recipe_hash(const Value& resolved);

/// Validates a composed document against the schemas, fills in defaults and what the configs of
/// weights say (their texts are added to `sources`; null: they are not looked at), and reads the
/// reserved keys. Relative paths of weights stand in `folder`; empty: in the current one.
Result<Recipe> make_recipe(Value composed, const SchemaSet& schemas, Sources* sources = nullptr,
                           const std::filesystem::path& folder = {});

/// What a resolved recipe says that everybody has to know who uses what it makes; empty: nothing.
std::string notice_of(const Value& resolved);

class SchemaSet;

/// The home folder in place of a "~" that `path` begins with: "~" or "~/…". Others are left as they
/// are.
std::string with_home(const std::string& path);

/// Does that with all options of the resolved recipe that are paths, wherever they were written. An
/// error for what a shell would understand and nothing here does, which would make or look for a
/// folder of that very name: "~anna/…",
/// "$HOME/…", and where a run or sweep is to go "a/~/b".
Diagnostics expand_home(Value& resolved, const SchemaSet& schemas);

}  // namespace runner
