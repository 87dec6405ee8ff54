#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/command_line.h"
#include "runner/config/difference.h"
#include "runner/cli/prepare.h"

namespace runner {
ExitCode config_diff_command(const Arguments& arguments, Console& console) {
  // The words are: recipe, its overrides, and perhaps another recipe with its own.
  const auto second = std::ranges::find_if_not(arguments.overrides, is_override);
  Arguments before = arguments, after = arguments;
  if (second == arguments.overrides.end()) {
    before.overrides.clear();
  } else {
    before.overrides.assign(arguments.overrides.begin(), second);
    after.recipe = *second;
    after.overrides.assign(second + 1, arguments.overrides.end());
  }
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  Diagnostics errors;
  const auto value_of = [&](const Arguments& side) {
    const Result<Shown> shown = compose_to_show(side, schemas, sources);
    if (shown) return shown->recipe;
    errors.insert(errors.end(), shown.errors().begin(), shown.errors().end());
    return Value{};
  };
  const Value left = value_of(before), right = value_of(after);
  if (!errors.empty()) return report(console, errors);
  const std::vector<Difference> found = differences(left, right);
  if (console.json) console.out << differences_json(found).dump(2) << '\n';
  else console.out << differences_text(found);
  return ExitCode::kDone;
}

}  // namespace runner
