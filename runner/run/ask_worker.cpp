#include "runner/run/ask_worker.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace runner {

Conversation shown_conversation(ProgressDisplay& display, std::string name) {
  Conversation conversation;
  conversation.on_event = [&display, name = std::move(name)](const Event& event, WorkerProcess&) {
    const auto shown = [&](const std::string& node) { return name.empty() ? node : name; };
    if (const auto* at = std::get_if<NodeProgress>(&event)) display.progress(shown(at->node), at->progress);
    if (const auto* said = std::get_if<Said>(&event)) display.say(shown(said->node), said->line);
    if (const auto* logged = std::get_if<Logged>(&event)) display.log(logged->level, shown(logged->node), logged->line);
  };
  conversation.on_output = [&display](std::string_view text) { display.detail(text); };
  conversation.on_resize = [&display] { display.resize(); };
  conversation.tick = [&display] { return display.tick(); };
  return conversation;
}

Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                                          const Conversation& conversation) {
  std::optional<nlohmann::ordered_json> answer;
  Diagnostics errors;
  Conversation listening = conversation;
  listening.on_event = [&](const Event& event, WorkerProcess& process) {
    if (const auto* given = std::get_if<Answer>(&event)) answer = given->json;
    else if (const auto* reported = std::get_if<Reported>(&event)) errors.push_back(reported->diagnostic);
    else if (conversation.on_event) conversation.on_event(event, process);
  };
  const auto ending = supervise(command, request, std::move(listening));
  if (!ending) return ending.errors();
  errors.insert(errors.end(), ending->errors.begin(), ending->errors.end());
  if (ending->interrupted) errors.push_back({ErrorCode::kInterrupted, {}, "", "interrupted", ""});
  if (exit_code(errors) != ExitCode::kDone) return errors;
  if (answer) return *std::move(answer);
  return Diagnostic{ErrorCode::kProtocol, {}, "", "the worker did not answer", "please report it"};
}

}  // namespace runner
