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

/// The run and the checkpoint from which a verb loads weights.
struct WeightsSource {
  std::string run;
  std::string checkpoint;  ///< best, latest or a checkpoint's folder; empty: the one that the
                           ///< training stage keeps
  std::string weights;     ///< averaged or trained; empty: as set by train.ema.result
  std::string node;        ///< the training node, if the run has several; empty: the run's only one
};

/// Adds the run's folder, --checkpoint and --weights.
void add_weights_source(Invocation& verb, WeightsSource& source, bool is_required = true);
/// Adds --node.
void add_weights_node(Invocation& verb, WeightsSource& source);

/// Returns the checkpoints that `source` selects in `run`, by training node. `graph` is the run's
/// graph.
Result<CheckpointSources> checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                             const WeightsSource& source);

/// A worker request that concerns a trained network.
struct WeightsRequest {
  /// {"protocol", "request", "graph", "node", "checkpoints"}
  nlohmann::ordered_json json;
  Value recipe;  ///< provides the source locations for errors in options
  Graph graph;
  /// The recorded run, to use its device again; nullopt if another device may be used.
  std::optional<RecordedRun> run;

  /// Must be called after changing the graph.
  void refresh_graph() { json["graph"] = to_json(graph); }
};

/// Returns the worker request `name` for the training node that `source` selects. The graph
/// contains that node and its inputs other than data. If the run has several training nodes that
/// vote and none is specified, a prediction uses their ensemble. `overrides` may set the device and
/// the threads for "predict" and "embed", and secrets that the record does not contain; any other
/// override is an error. A missing secret is an error if a node other than the training node needs
/// it. The errors and the recipe point into `sources`.
Result<WeightsRequest> weights_request(std::string_view name, const WeightsSource& source,
                                       const std::vector<std::string>& overrides, Sources& sources);

/// The words after the run on the command line of a verb that reads images.
struct ImageWords {
  std::vector<std::string> paths;      ///< images and folders
  std::vector<std::string> overrides;  ///< key=value, unless a file with that name exists
};

ImageWords image_words(const std::vector<std::string>& words);

/// True if `override` sets only what a prediction runs on: the device or the number of threads.
bool is_of_machine(const std::string& override);

/// Returns `path`, as typed, in a form that the worker for `graph` can open; the worker may have
/// another working folder.
std::string path_for(const Graph& graph, const std::string& path);

/// Returns `errors` with the source locations of their pointers and without the recipe's secrets.
Diagnostics placed(Diagnostics errors, const Value& recipe);

/// Returns the devices of this machine, for choosing one. Messages about the choice go to standard
/// error, unless quiet. Borrows all arguments. If `wait` is given, a signal ends the wait for a
/// device.
DeviceWorld device_world(DeviceSource& source, Console& console, SignalWait* wait = nullptr);

/// What a device is needed for.
struct DeviceUse {
  const Value& recipe;               ///< resolved; only its device section is used
  Graph& graph;                      ///< the call sets its `device`
  WorkerCommand& worker;             ///< the call sets its environment variables
  const RecordedRun* run = nullptr;  ///< the recorded run to take the device from; null: a new run
  bool is_resumed = false;           ///< part of the run is already done
  CheckpointSources trained = {};    ///< training nodes that are not part of the graph
  std::optional<ReuseOptions::Which> reuse =
      {};  ///< the nodes of a run, which is planned to determine the memory needed; nullopt: not a
           ///< run
  NeedOf need = {};  ///< for anything other than a run, the memory needed; empty: unknown
  int ranks = 1;     ///< workers that train together, all started by this process
};

/// Reserves the device selected by the recipe and sets it in the graph and worker of `use`. If
/// Retort chooses the GPUs, reserves one for each rank. Errors have source locations. A signal ends
/// the wait for a device.
Result<OwnDevice> take_own_device(const DeviceUse& use, Console& console);

/// Returns a function that reserves another GPU for the same use, following the memory, wait and
/// exclude options of the recipe's device section. `console` and what `use` borrows must outlive
/// the function.
NextGpu next_gpu_for(const DeviceUse& use, Console& console);

/// For a plan: chooses the device that the run would get if all devices were free, and sets it in
/// `use` without reserving it. Errors have source locations.
Result<TakenDevice> use_likely_device(const DeviceUse& use, Console& console);

}  // namespace runner
