#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/run/progress_display.h"
#include "runner/parent/run/supervise.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"

namespace runner {

/// What a worker should show about a graph without running it.
struct PlanRequest {
  Graph graph;
  std::optional<NamedBytes> budget;  ///< used if the recipe sets none
  std::string device_model;  ///< a GPU that is not in this machine (choose_device.h); empty: the
                             ///< graph's own device
  bool alternatives = true;  ///< also show other ways to compute the same
  bool certify = false;      ///< compare the recipe's way of computing with the whole batch
  bool strict = false;       ///< refuse what cannot be planned without running it
  CheckpointSources trained = {};  ///< trainings that an earlier run has done: not planned again
  ReuseOptions::Which reuse = ReuseOptions::Which::kCacheable;
  std::filesystem::path node_index = {};
};

nlohmann::ordered_json to_json(const PlanRequest& request);

/// Applies --budget ("8GiB") and --gpu ("L4"), unless empty. A budget replaces the recipe's; a
/// GPU's memory limits it. Returns every kUsage: an invalid size, an unknown GPU.
Diagnostics hold_against(PlanRequest& request, const std::string& budget, const std::string& gpu);

/// What a run does with a node.
struct NodeReuse {
  std::string node;
  std::string state;  ///< "hit": reused; "miss": it could be and is not; "run": it is always run;
                      ///< "unknown": it cannot be planned before others have run
  std::string
      why;  ///< for a hit: the run it is taken from; for a miss: which field changed; may be empty
};

/// What a worker has shown.
struct PlanAnswer {
  std::vector<MemoryPlan> plans;          ///< of the nodes that train or evaluate, in order
  std::vector<Certificate> certificates;  ///< of the same nodes, in order
  std::vector<NodeReuse> reuse;           ///< of all nodes, in order
  std::optional<NamedBytes> memory = {};  ///< everything its device has, {"the machine's memory",
                                          ///< …}; none for a device that is not here
  nlohmann::ordered_json json;            ///< the whole answer as received, except `memory`
  Diagnostics diagnostics =
      {};  ///< other diagnostics: warnings, what does not fit or cannot be planned

  /// The plan of the node with the largest need; null if nothing was planned.
  const MemoryPlan* largest_plan() const;
};

/// The ids of the nodes whose results a run of `graph` would compute. Nodes that feed only reused
/// nodes, such as data, are excluded: a run lists them again, but does not use them.
std::set<std::string> nodes_to_run(const Graph& graph, std::span<const NodeReuse> reuse);

/// Throws std::runtime_error if `json` is not an answer to a PlanRequest.
PlanAnswer plan_answer_from_json(nlohmann::ordered_json json);

/// Asks a worker, and shows its messages on `display` meanwhile. Errors if it does not answer;
/// kProtocol if the answer is invalid.
Result<PlanAnswer> ask_for_plan(const WorkerCommand& worker, const PlanRequest& request,
                                ProgressDisplay& display);

/// A conversation with a worker that leaves no record. `display`, which must outlive it, shows the
/// worker's progress, messages and log lines. They are shown under `name` or, if that is empty,
/// under the node that they are about.
///
///   Conversation conversation = shown_conversation(display, "data");
///   const auto answer = ask_worker(worker, request, conversation);
Conversation shown_conversation(ProgressDisplay& display, std::string name = "");

/// A worker's reply to one request.
struct WorkerReply {
  std::optional<nlohmann::ordered_json> answer;  ///< nullopt: `diagnostics` says why
  Diagnostics diagnostics;                       ///< diagnostics that came with it; without a place
};

/// Starts a worker and sends it one request that is not a run; its other events go to `on_event`.
/// There is no answer if the worker could not be started, died, was stopped by a signal, or gave
/// none.
WorkerReply reply_of_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                            const Conversation& conversation = {});

/// The same, but an answer counts only without errors.
Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command,
                                          const nlohmann::ordered_json& request,
                                          const Conversation& conversation = {});

}  // namespace runner
