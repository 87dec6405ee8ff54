#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/devices/take_device.h"
#include "runner/parent/run/chosen_device.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/value/value.h"

namespace runner {

/// The run and checkpoint whose weights a verb uses.
struct WeightsSource {
  std::string run;
  std::string checkpoint;  ///< best, latest or a checkpoint's folder; empty: the one that the
                           ///< training keeps
  std::string weights;     ///< averaged or trained; empty: as train.ema.result says
  std::string node;        ///< the training node, if the run has several; empty: the only one
};

/// Adds the run's folder, --checkpoint and --weights.
void add_weights_source(Invocation& verb, WeightsSource& source, bool is_required = true);
/// Adds --node.
void add_weights_node(Invocation& verb, WeightsSource& source);

/// The trainings in `run` whose weights `source` selects; `graph` is the run's.
Result<CheckpointSources> checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                             const WeightsSource& source);

/// A worker request about a network that a recorded run has trained.
struct WeightsRequest {
  /// {"protocol", "request", "graph", "node", "checkpoints"}
  nlohmann::ordered_json json;
  Value recipe;  ///< locates errors in options
  Graph graph;
  std::optional<RecordedRun>
      run;  ///< the run whose device is used again; nullopt: the overrides name another

  /// Call after changing the graph.
  void refresh_graph() { json["graph"] = to_json(graph); }
};

/// The request `name` about the training of `source`. Its graph has that node and its inputs other
/// than data. If the run has several trainings that vote and none is named, a prediction uses their
/// ensemble. `overrides` may change the device and the threads of a prediction, and may give again
/// a secret that the record does not hold; any other override is an error. It is also an error if
/// such a secret is missing and more than the training needs it. The errors and the recipe point
/// into `sources`.
Result<WeightsRequest> weights_request(std::string_view name, const WeightsSource& source,
                                       const std::vector<std::string>& overrides, Sources& sources);

/// True if an override says where a prediction is computed: the device or the threads.
bool is_of_machine(const std::string& override);

/// `path`, as typed, for the worker that gets `graph`; the worker may have another working folder.
std::string path_for(const Graph& graph, const std::string& path);

/// The same errors with the source locations of their pointers, and without the recipe's secrets.
Diagnostics placed(Diagnostics errors, const Value& recipe);

/// The devices of this machine from which a verb chooses. It prints its choice on standard error,
/// unless quiet. Everything is borrowed; `wait` is used to wait, if it must.
DeviceWorld device_world(DeviceSource& source, Console& console, SignalWait* wait = nullptr);

/// What a device is chosen for.
struct DeviceUse {
  const Value& recipe;               ///< resolved; its device section is used
  Graph& graph;                      ///< its `device` is set
  WorkerCommand& worker;             ///< its environment variables are set
  const RecordedRun* run = nullptr;  ///< the run to continue on its own device; null: a new run
  bool is_resumed = false;           ///< a part of the run is done
  CheckpointSources trained = {};    ///< trainings that are not part of the graph
  std::optional<ReuseOptions::Which> reuse =
      {};            ///< of a run, whose plan says what it needs; nullopt: not a run
  NeedOf need = {};  ///< the need of anything but a run; empty: unknown
  int ranks = 1;     ///< workers that train together, all started by this process
};

/// Takes the device that the recipe asks for; if that is a GPU of its choice, one for each rank.
/// Errors have source locations. A signal ends the wait for a device.
Result<OwnDevice> take_own_device(const DeviceUse& use, Console& console);

/// Takes another GPU for the same use, following the memory, wait and exclude options of the
/// recipe's device section. `console` and what `use` borrows must outlive the result.
NextGpu next_gpu_for(const DeviceUse& use, Console& console);

/// For a plan: the device that such a run would get, without reserving it. Errors as above.
Diagnostics use_likely_device(const DeviceUse& use, Console& console);

}  // namespace runner
