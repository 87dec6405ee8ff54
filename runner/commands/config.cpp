#include <nlohmann/json.hpp>

#include "runner/command.h"
#include "runner/config/origin.h"
#include "runner/prepare.h"
#include "runner/config/yaml_writer.h"

namespace runner {

ExitCode config_command(const Arguments& arguments, Console& console) {
  if (arguments.subject == "diff") return config_diff_command(arguments, console);
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  const auto composition = compose(arguments, schemas, sources);
  if (!composition) return report(console, composition.errors());
  warn(console, composition->warnings);
  const auto show = [&](const Value& value) {
    if (console.json) console.out << to_json(value).dump(2) << '\n';
    else console.out << (arguments.origin ? yaml_with_origins(value) : write_yaml(value));
    return ExitCode::kDone;
  };
  if (!arguments.resolve) return show(composition->unresolved);
  const auto recipe = make_recipe(composition->recipe, schemas);
  return recipe ? show(recipe->resolved) : report(console, recipe.errors());
}

}  // namespace runner
