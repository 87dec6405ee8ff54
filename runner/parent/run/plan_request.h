#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/run/progress_display.h"
#include "runner/parent/run/supervise_ranks.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"

namespace runner {

/// A request for a worker to plan a graph without running it.
struct PlanRequest {
  Graph graph;
  std::optional<NamedBytes> budget;  ///< used if the recipe sets none
  /// A GPU model that is not in this machine (choose_device.h); empty: the graph's own device.
  std::string device_model;
  bool alternatives = true;        ///< also plan other ways to compute the same result
  bool certify = false;            ///< compare the recipe's step with one on the whole batch
  bool strict = false;             ///< reject stages that cannot be planned without running them
  CheckpointSources trained = {};  ///< training runs that are already done and are not planned
  ReuseOptions::Which reuse = ReuseOptions::Which::kCacheable;
  std::filesystem::path node_index = {};
};

nlohmann::ordered_json to_json(const PlanRequest& request);

/// Applies the options --budget ("8GiB") and --gpu ("L4"), unless they are empty. The budget
/// replaces the recipe's, but is limited by the GPU's memory. Returns all kUsage errors: an invalid
/// size, an unknown GPU.
Diagnostics hold_against(PlanRequest& request, const std::string& budget, const std::string& gpu);

/// What a run does with a node.
struct NodeReuse {
  std::string node;
  /// "hit": reused; "miss": could be reused, but is not; "run": always runs; "unknown": cannot be
  /// planned before other nodes have run.
  std::string state;
  /// For a hit, the run that it is reused from; for a miss, the field that changed; may be empty.
  std::string why;
};

/// A worker's answer to a PlanRequest.
struct PlanAnswer {
  std::vector<MemoryPlan> plans;          ///< plans of the nodes that train or evaluate, in order
  std::vector<Certificate> certificates;  ///< certificates of the same nodes, in order
  std::vector<NodeReuse> reuse;           ///< for all nodes, in order
  /// The total memory of the device: {"the machine's memory", …}; nullopt for a device that is not
  /// in this machine.
  std::optional<NamedBytes> memory = {};
  nlohmann::ordered_json json;  ///< the answer as received, except `memory`
  /// Other diagnostics: warnings, and nodes that do not fit or cannot be planned.
  Diagnostics diagnostics = {};

  /// Returns the plan of the node that needs the most memory; null if nothing was planned.
  const MemoryPlan* largest_plan() const;
};

/// Returns the ids of the nodes that compute results in a run of `graph`. Excludes nodes needed
/// only by reused nodes, such as data: a run lists them again but does not use them.
std::set<std::string> nodes_to_run(const Graph& graph, std::span<const NodeReuse> reuse);

/// Converts the answer to a PlanRequest. Throws std::runtime_error if `json` is not valid.
PlanAnswer plan_answer_from_json(nlohmann::ordered_json json);

/// Sends the request to a worker, showing its messages on `display` in the meantime. Returns errors
/// if there is no answer; kProtocol if the answer is invalid.
Result<PlanAnswer> ask_for_plan(const WorkerCommand& worker, const PlanRequest& request,
                                ProgressDisplay& display);

/// Returns a conversation, with a worker, for which no record is written. Shows the worker's
/// progress, messages and log lines on `display`, which must outlive the conversation, under `name`
/// or, if that is empty, under the node that they concern.
///
///   Conversation conversation = shown_conversation(display, "data");
///   const auto answer = ask_worker(worker, request, conversation);
Conversation shown_conversation(ProgressDisplay& display, std::string name = "");

/// A worker's reply to one request.
struct WorkerReply {
  std::optional<nlohmann::ordered_json> answer;  ///< nullopt: see `diagnostics` for the reason
  Diagnostics diagnostics;                       ///< sent along with the answer; without locations
};

/// Starts a worker and sends it a single request that is not a run; passes its other events to
/// `on_event`. There is no answer if the worker could not be started, died, was stopped by a signal
/// or did not send one. With `others`, several ranks answer together: the reply is rank 0's.
WorkerReply reply_of_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                            const Conversation& conversation = {}, const OtherRanks& others = {});

/// Like reply_of_worker(), but returns the diagnostics instead of the answer if any is an error.
Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command,
                                          const nlohmann::ordered_json& request,
                                          const Conversation& conversation = {},
                                          const OtherRanks& others = {});

}  // namespace runner
