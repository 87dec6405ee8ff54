#include "runner/run/shown_conversation.h"

#include <utility>

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

}  // namespace runner
