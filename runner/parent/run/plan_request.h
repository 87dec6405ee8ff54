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

/// What a worker is asked to show of a graph without running it.
struct PlanRequest {
  Graph graph;
  std::optional<NamedBytes> budget;  ///< that holds where the recipe sets none
  std::string
      device_model;  ///< of a GPU that is not here (device_models.h); empty: the graph's own device
  bool alternatives = true;        ///< look at other ways of computing the same
  bool certify = false;            ///< hold the recipe's way of computing against the whole batch
  CheckpointSources trained = {};  ///< trainings that an earlier run has done: they are not planned
  ReuseOptions::Which reuse = ReuseOptions::Which::kCacheable;
  std::filesystem::path node_index = {};
};

nlohmann::ordered_json to_json(const PlanRequest& request);

/// Takes in what --budget ("8GiB") and --gpu ("L4") say; empty: nothing. A budget holds instead of
/// the recipe's; of a GPU, its memory is the most that holds. kUsage, all of them, for what is no
/// size and no GPU.
Diagnostics hold_against(PlanRequest& request, const std::string& budget, const std::string& gpu);

/// What becomes of a node in a run.
struct NodeReuse {
  std::string node;
  std::string state;  ///< "hit": reused; "miss": it could be and is not; "run": it is always run;
                      ///< "unknown": it cannot be planned before others have run
  std::string
      why;  ///< of a hit: the run it is taken from; of a miss: which field changed; may be empty
};

/// What a worker has shown.
struct PlanAnswer {
  std::vector<MemoryPlan> plans;          ///< of the nodes that train or evaluate, in order
  std::vector<Certificate> certificates;  ///< likewise
  std::vector<NodeReuse> reuse;           ///< of all nodes, in order
  std::optional<NamedBytes> memory =
      {};  ///< all that its device has, {"the machine's memory", …}; of one not here none
  nlohmann::ordered_json json;  ///< all of it as it came but for `memory`
  Diagnostics diagnostics =
      {};  ///< what else it said: warnings, what does not fit or cannot be planned

  /// Of the node where the run needs the most; null where nothing was planned.
  const MemoryPlan* largest_plan() const;
};

/// The ids of the nodes whose results a run of `graph` would compute. Data, say, that feed reused
/// nodes alone are listed once more in a run, but nothing comes of them.
std::set<std::string> nodes_to_run(const Graph& graph, std::span<const NodeReuse> reuse);

/// Throws std::runtime_error for what is no answer to a PlanRequest.
PlanAnswer plan_answer_from_json(nlohmann::ordered_json json);

/// Asks a worker, and shows on `display` what it says meanwhile. Errors where it gives no answer;
/// kProtocol where that is none.
Result<PlanAnswer> ask_for_plan(const WorkerCommand& worker, const PlanRequest& request,
                                ProgressDisplay& display);

/// A conversation with a worker that leaves no record: `display`, which must outlive it, shows its
/// progress, what it says, and the lines of its log. They are shown as `name`'s, or where that is
/// empty as of the node that they are about.
///
///   Conversation conversation = shown_conversation(display, "data");
///   const auto answer = ask_worker(worker, request, conversation);
Conversation shown_conversation(ProgressDisplay& display, std::string name = "");

/// What a worker has said to one request.
struct WorkerReply {
  std::optional<nlohmann::ordered_json> answer;  ///< nullopt: `diagnostics` says why
  Diagnostics diagnostics;                       ///< that came with it; without a place
};

/// Starts a worker and asks it one thing that is no run; what else it says goes to `on_event`.
/// There is no answer where the worker could not be started, died, was stopped by a signal, or gave
/// none.
WorkerReply reply_of_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                            const Conversation& conversation = {});

/// The same where an answer counts only without errors.
Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command,
                                          const nlohmann::ordered_json& request,
                                          const Conversation& conversation = {});

}  // namespace runner
