#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/run/supervise.h"
#include "runner/cli/trained_request.h"

namespace runner {

ExitCode export_command(const Arguments& arguments, Console& console) {
  if (!arguments.merged && !arguments.adapter) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "export what?",
                             "--merged: the whole network; --adapter: what a LoRA training has trained"}});
  }
  auto request = trained_request("export", arguments, {});
  if (!request) return report(console, request.errors());
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  request->json.update({{"what", arguments.merged ? "merged" : "adapter"},
                        {"out", arguments.out},
                        {"names", arguments.names},
                        {"head_inside", arguments.head_inside}});
  Conversation conversation;
  conversation.on_event = [&](const Event& event, WorkerProcess&) {
    const auto* said = std::get_if<Said>(&event);
    if (said && !console.is_quiet()) console.err << "export: " << said->line << '\n';
  };
  const auto answer = ask_worker({.program = *worker}, request->json, conversation);
  if (!answer) return report(console, placed(answer.errors(), request->recipe));
  if (console.json) console.out << answer->dump(2) << '\n';
  else if (!console.is_quiet()) {
    for (const auto& file : (*answer)["files"]) console.out << arguments.out << '/' << file.get<std::string>() << '\n';
  }
  return ExitCode::kDone;
}

}  // namespace runner
