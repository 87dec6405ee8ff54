#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/stage/determinism.h"
#include "runner/shared/error/result.h"
#include "runner/shared/value/value.h"

namespace runner {

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

/// The SHA-256 of a resolved recipe as JSON with its keys sorted, in hexadecimal: their order says nothing.
std::string recipe_hash(const Value& resolved);

/// Validates a composed document against the schemas, fills in defaults and what the configs of weights say (their
/// texts are added to `sources`; null: they are not looked at), and reads the reserved keys. Relative paths of weights
/// stand in `folder`; empty: in the current one.
Result<Recipe> make_recipe(Value composed, const SchemaSet& schemas, Sources* sources = nullptr,
                           const std::filesystem::path& folder = {});

/// What a resolved recipe says that everybody has to know who uses what it makes; empty: nothing.
std::string notice_of(const Value& resolved);

}  // namespace runner
