#include "runner/parent/compile/recipe.h"

#include <algorithm>
#include <array>

#include "runner/parent/config/secret.h"
#include "runner/parent/compile/home_paths.h"
#include "runner/parent/compile/settle_weights.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/value/sorted_json.h"

namespace runner {
namespace {

constexpr std::array<std::string_view, 11> kReserved = {"schema", "name", "notice", "seed", "threads", "determinism",
                                                        "device", "run",  "sweep",  "vars", "aliases"};

/// YAML reads an `off` without quotes as false.
Determinism determinism_of(const Value& value) {
  return value.text() ? *determinism_named(*value.text()) : Determinism::kOff;
}

}  // namespace

std::string recipe_hash(const Value& resolved) { return sha256(sorted_json(resolved)); }

std::string notice_of(const Value& resolved) {
  const Value* notice = resolved.find("notice");
  return notice && notice->text() ? *notice->text() : "";
}

Result<Recipe> make_recipe(Value composed, const SchemaSet& schemas, Sources* sources,
                           const std::filesystem::path& folder) {
  if (auto errors = schemas.validate(composed); !errors.empty()) return errors;
  if (auto errors = shown_secrets(composed, {"name", "notice", "run.dir"}); !errors.empty()) return errors;
  if (auto errors = settle_home(composed, schemas); !errors.empty()) return errors;
  if (sources) {
    if (auto errors = settle_by_weights(composed, schemas, *sources, folder); !errors.empty()) return errors;
  }
  Recipe recipe;
  recipe.name = std::get<std::string>(composed.find("name")->data);
  recipe.seed = static_cast<std::uint64_t>(std::get<std::int64_t>(composed.find("seed")->data));
  if (const auto* threads = std::get_if<std::int64_t>(&composed.find("threads")->data)) {
    recipe.threads = static_cast<int>(*threads);
  }
  recipe.determinism = determinism_of(*composed.find("determinism"));
  recipe.device = std::get<std::string>(composed.find("device")->find("select")->data);
  if (const auto* folder = composed.find("run")->find("dir")->text()) recipe.run_dir = *folder;
  for (const Entry& entry : *composed.map()) {
    if (std::ranges::count(kReserved, entry.key)) continue;
    recipe.stages.push_back({entry.key, entry.key_where, *entry.value.find("kind")->text(), entry.value});
  }
  if (recipe.stages.empty()) {
    return Diagnostic{ErrorCode::kMissingKey, composed.where, "", "the recipe has no stage",
                      "write a mapping with a kind, such as data: {kind: data.image_folder, root: FOLDER}"};
  }
  recipe.resolved = std::move(composed);
  return recipe;
}

}  // namespace runner
