#include <algorithm>
#include <iterator>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/compile/missing_files.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/run/image_folders.h"

namespace runner {
namespace {

ExitCode validate(const NamedRecipe& named, Console& console) {
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  const auto prepared = prepare(named, schemas, sources);
  if (!prepared) return report(console, prepared.errors());
  warn(console, prepared->composition.warnings);
  const ImageFolders folders =
      look_at_image_folders(prepared->recipe.resolved, prepared->graph.working_folder);
  Diagnostics errors = missing_files(prepared->graph, schemas);
  errors.insert(errors.end(), folders.errors.begin(), folders.errors.end());
  std::ranges::move(unknown_classes(prepared->graph), std::back_inserter(errors));
  const SecretTexts secrets(prepared->recipe.resolved);
  for (Diagnostic& error : errors) error = secrets.hidden_in(std::move(error));
  sort_by_place(errors, sources);
  if (!errors.empty()) return report(console, errors);
  if (!console.is_quiet()) {
    for (const std::string& line : folders.lines) console.err << line << '\n';
  }
  const auto& [composition, recipe, graph, broken_rules] = *prepared;
  if (console.json) {
    print_result(console, "validate/1",
                 {{"valid", true},
                  {"name", recipe.name},
                  {"file", composition.file.string()},
                  {"stages", recipe.stages.size()},
                  {"nodes", graph.nodes.size()}});
  } else if (!console.is_quiet()) {
    console.out << recipe.name << " is valid: " << recipe.stages.size() << " stages, "
                << graph.nodes.size() << " nodes\n";
  }
  return ExitCode::kDone;
}

Invocation declare_validate() {
  const auto flags = std::make_shared<NamedRecipe>();
  Invocation verb;
  verb.add_recipe(*flags);
  verb.run = [flags](Console& console) { return validate(*flags, console); };
  return verb;
}

}  // namespace

const Command kValidateCommand = {"validate",
                                  "Checks a recipe and reports everything that is wrong with it.",
                                  "retort validate classify data.root=photos", declare_validate};

}  // namespace runner
