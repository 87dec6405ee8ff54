#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/data_names.h"
#include "runner/run/progress_display.h"
#include "runner/run/supervise.h"

namespace runner {
namespace {

Diagnostic misused(std::string message, std::string help) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

}  // namespace

ExitCode data_command(const Arguments& arguments, Console& console) {
  if (arguments.subject == "fetch") return data_fetch_command(arguments, console);
  if (std::ranges::count(kMakeableData, arguments.what) == 0) {
    std::string names;
    for (const std::string_view name : kMakeableData) names += (names.empty() ? "" : ", ") + std::string(name);
    return report(console, {misused("cannot make '" + arguments.what + "'", "make: " + names)});
  }
  if (arguments.out.empty())
    return report(console, {misused("data make needs a folder to write", "name one that does not exist: --out DIR")});
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  const nlohmann::ordered_json request = {
      {"protocol", kProtocolVersion}, {"request", "make_data"},       {"what", arguments.what},
      {"out", arguments.out},         {"classes", arguments.classes}, {"per_class", arguments.per_class},
      {"size", arguments.size},       {"seed", arguments.seed},
  };
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  Conversation conversation;
  conversation.on_event = [&](const Event& event, WorkerProcess&) {
    if (const auto* at = std::get_if<NodeProgress>(&event)) display.progress("data", at->progress);
    if (const auto* said = std::get_if<Said>(&event)) display.say("data", said->line);
  };
  conversation.on_resize = [&] { display.resize(); };
  conversation.tick = [&] { return display.tick(); };
  const auto answer = ask_worker({.program = *worker}, request, conversation);
  display.clear();
  if (!answer) {
    Diagnostics errors = answer.errors();
    for (Diagnostic& error : errors) error.pointer.clear();  // there is no recipe to point into
    return report(console, errors);
  }
  if (console.json) console.out << answer->dump(2) << '\n';
  else if (!console.is_quiet()) {
    console.out << "made " << (*answer)["images"] << " images in " << arguments.classes << " classes: " << arguments.out
                << '\n';
  }
  return ExitCode::kDone;
}

}  // namespace runner
