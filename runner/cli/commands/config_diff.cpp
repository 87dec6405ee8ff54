#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/cli/command_line.h"
#include "runner/cli/commands/config.h"
#include "runner/cli/prepare.h"
#include "runner/config/difference.h"

namespace runner {

ExitCode show_config_difference(const NamedRecipe& named, bool resolve, Console& console) {
  // The words are: recipe, its overrides, and perhaps another recipe with its own.
  const auto second = std::ranges::find_if_not(named.overrides, is_override);
  NamedRecipe before = named, after = named;
  if (second == named.overrides.end()) {
    before.overrides.clear();
  } else {
    before.overrides.assign(named.overrides.begin(), second);
    after.name = *second;
    after.overrides.assign(second + 1, named.overrides.end());
  }
  Sources& sources = console.sources;
  const SchemaSet schemas = shipped_schemas();
  Diagnostics errors;
  const auto value_of = [&](const NamedRecipe& side) {
    const Result<ShownConfig> shown = compose_to_show(side, resolve, schemas, sources);
    if (shown) return shown->recipe;
    errors.insert(errors.end(), shown.errors().begin(), shown.errors().end());
    return Value{};
  };
  const Value left = value_of(before), right = value_of(after);
  if (!errors.empty()) return report(console, errors);
  const std::vector<Difference> found = differences(left, right);
  if (console.json) print_result(console, "config_diff/1", {{"differences", differences_json(found)}});
  else console.out << differences_text(found);
  return ExitCode::kDone;
}

}  // namespace runner
