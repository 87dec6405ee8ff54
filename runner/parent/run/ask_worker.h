#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/error/result.h"
#include "runner/parent/run/progress_display.h"
#include "runner/parent/run/supervise.h"

namespace runner {

/// A conversation with a worker that leaves no record: `display`, which must outlive it, shows its progress, what it
/// says, and the lines of its log. They are shown as `name`'s, or where that is empty as of the node that they are
/// about.
///
///   Conversation conversation = shown_conversation(display, "data");
///   const auto answer = ask_worker(worker, request, conversation);
Conversation shown_conversation(ProgressDisplay& display, std::string name = "");

/// What a worker has said to one request.
struct WorkerReply {
  std::optional<nlohmann::ordered_json> answer;  ///< nullopt: `diagnostics` says why
  Diagnostics diagnostics;                       ///< that came with it; without a place
};

/// Starts a worker and asks it one thing that is no run; what else it says goes to `on_event`. There is no answer where
/// the worker could not be started, died, was stopped by a signal, or gave none.
WorkerReply reply_of_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                            const Conversation& conversation = {});

/// The same where an answer counts only without errors.
Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                                          const Conversation& conversation = {});

}  // namespace runner
