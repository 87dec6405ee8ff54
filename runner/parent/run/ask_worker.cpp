#include "runner/parent/run/ask_worker.h"

#include <csignal>
#include <utility>

#include "runner/shared/error/stop.h"
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

WorkerReply reply_of_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                            const Conversation& conversation) {
  WorkerReply reply;
  Conversation listening = conversation;
  listening.on_event = [&](const Event& event, WorkerProcess& process) {
    if (const auto* given = std::get_if<Answer>(&event)) reply.answer = given->json;
    else if (const auto* reported = std::get_if<Reported>(&event)) reply.diagnostics.push_back(reported->diagnostic);
    else if (conversation.on_event) conversation.on_event(event, process);
  };
  const auto ending = supervise(command, request, std::move(listening));
  Diagnostics failures = ending ? ending->errors : ending.errors();
  if (ending && says_stopped(ending->exit))
    failures.push_back(stopped_by(ending->exit == ExitCode::kInterrupted ? SIGINT : SIGTERM));
  const bool says_why = reply.answer || exit_code(reply.diagnostics) != ExitCode::kDone;
  if (failures.empty() && !says_why)
    failures.push_back({ErrorCode::kProtocol, {}, "", "the worker did not answer", "please report it"});
  if (!failures.empty()) reply.answer.reset();
  reply.diagnostics.insert(reply.diagnostics.end(), failures.begin(), failures.end());
  return reply;
}

Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                                          const Conversation& conversation) {
  WorkerReply reply = reply_of_worker(command, request, conversation);
  if (exit_code(reply.diagnostics) != ExitCode::kDone) return std::move(reply.diagnostics);
  return *std::move(reply.answer);
}

}  // namespace runner
