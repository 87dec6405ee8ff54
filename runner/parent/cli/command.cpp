#include "runner/parent/cli/command.h"

#include <algorithm>
#include <array>

namespace runner {

void Invocation::add_recipe(NamedRecipe& target) {
  recipe = &target;
  add({.name = "recipe", .value = &target.name, .summary = "A recipe's name, or a file ending in .yaml"});
  add({.name = "overrides",
       .value = &target.overrides,
       .summary = "key=value, +key=value, ++key=value, ~key or group=option, as in Hydra"});
  add({.name = "--config-name",
       .value = &target.config_name,
       .summary = "The recipe; also -cn, as in Hydra",
       .type = "NAME"});
  add({.name = "--config-path",
       .value = &target.config_path,
       .summary = "The folder to search instead of the working directory; also -cp",
       .type = "DIR"});
  add({.name = "--config-dir",
       .value = &target.config_dirs,
       .summary = "Another folder of recipes; also -cd",
       .type = "DIR",
       .once_each = true});
  add({.name = "--strict", .value = &target.strict, .summary = "Treat warnings as errors"});
}

std::span<const Command* const> all_commands() {
  static constexpr std::array kCommands = {
      &kRunCommand,      &kResumeCommand, &kEvaluateCommand, &kPredictCommand, &kExportCommand,     &kAnalyzeCommand,
      &kCompareCommand,  &kRunsCommand,   &kSweepCommand,    &kWatchCommand,   &kPlanCommand,       &kCertifyCommand,
      &kValidateCommand, &kGraphCommand,  &kConfigCommand,   &kStagesCommand,  &kSchemaCommand,     &kExplainCommand,
      &kInitCommand,     &kDataCommand,   &kDevicesCommand,  &kDoctorCommand,  &kCompletionCommand,
  };
  return kCommands;
}

const Command* find_command(std::string_view name) {
  const auto commands = all_commands();
  const auto found = std::ranges::find(commands, name, [](const Command* command) { return command->name; });
  return found == commands.end() ? nullptr : *found;
}

}  // namespace runner
