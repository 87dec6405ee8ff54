#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/error/result.h"
#include "runner/run/progress_display.h"
#include "runner/run/supervise.h"

namespace runner {

/// A conversation with a worker that leaves no record: `display`, which must outlive it, shows its progress, what it
/// says, and the lines of its log. They are shown as `name`'s, or where that is empty as of the node that they are
/// about.
///
///   Conversation conversation = shown_conversation(display, "data");
///   const auto answer = ask_worker(worker, request, conversation);
Conversation shown_conversation(ProgressDisplay& display, std::string name = "");

/// Starts a worker, asks it one thing that is no run, and gives back its answer; what it says goes to `on_event`.
Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                                          const Conversation& conversation = {});

}  // namespace runner
