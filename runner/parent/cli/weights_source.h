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

/// Which run and checkpoint the weights that a verb works with come from.
struct WeightsSource {
  std::string run;
  std::string checkpoint;  ///< best, latest or a checkpoint's folder; empty: the one that the
                           ///< training keeps
  std::string weights;     ///< averaged or trained; empty: as train.ema.result says
  std::string node;        ///< the training, where the run has several; empty: the only one
};

/// The run's folder, --checkpoint and --weights.
void add_weights_source(Invocation& verb, WeightsSource& source, bool is_required = true);
/// --node.
void add_weights_node(Invocation& verb, WeightsSource& source);

/// The trainings in `run` whose weights are taken, as `source` chooses them; `graph` is the run's.
Result<CheckpointSources> checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                             const WeightsSource& source);

/// What a worker is asked about a network that a recorded run has trained.
struct WeightsRequest {
  /// {"protocol", "request", "graph", "node", "checkpoints"}
  nlohmann::ordered_json json;
  Value recipe;  ///< for the places of what is wrong with an option
  Graph graph;
  std::optional<RecordedRun>
      run;  ///< whose device it is again; nullopt: the overrides name another

  /// The graph has changed since.
  void refresh_graph() { json["graph"] = to_json(graph); }
};

/// The request `name` about the training of `source`; its graph has that node and what it takes in
/// besides data. A prediction of a run with several trainings that vote, of which none is named, is
/// about their ensemble. `overrides` may change the device and the threads of a prediction, and
/// give again a secret that the record does not hold; any other is an error, as is such a secret
/// that is not given and needed for more than the training. The errors, and the recipe, point into
/// `sources`.
Result<WeightsRequest> weights_request(std::string_view name, const WeightsSource& source,
                                       const std::vector<std::string>& overrides, Sources& sources);

/// Does an override say where a prediction is computed: the device or the threads?
bool is_of_machine(const std::string& override);

/// `path`, as it was typed, for the worker that is asked about `graph`, which may work in another
/// folder.
std::string path_for(const Graph& graph, const std::string& path);

/// The same errors with the places of their pointers, and without the recipe's secrets.
Diagnostics placed(Diagnostics errors, const Value& recipe);

/// The devices of this machine as a verb chooses among them: it says what it does on standard
/// error, unless it is to be quiet. All are borrowed; `wait` is how it lets time pass, where it
/// waits.
DeviceWorld device_world(DeviceSource& source, Console& console, SignalWait* wait = nullptr);

/// For whom a device is chosen, and what is to happen there.
struct DeviceUse {
  const Value& recipe;               ///< resolved; its device section
  Graph& graph;                      ///< whose `device` is set
  WorkerCommand& worker;             ///< whose variables are set
  const RecordedRun* run = nullptr;  ///< that is taken up again on its own device; null: a new one
  bool is_resumed = false;           ///< a part of it is done
  CheckpointSources trained = {};    ///< trainings that are not part of it
  std::optional<ReuseOptions::Which> reuse =
      {};            ///< a run's, whose plan says what it needs; nullopt: it is none
  NeedOf need = {};  ///< of what is no run; empty: nobody knows
};

/// Takes the device that the recipe asks for. The errors have their places. A signal ends a wait
/// for one.
Result<OwnDevice> take_own_device(const DeviceUse& use, Console& console);

/// Takes another GPU for the same, as the recipe's device section says of memory, of waiting and of
/// what is excluded. What `use` borrows, and `console`, must outlive it.
NextGpu next_gpu_for(const DeviceUse& use, Console& console);

/// The device that such a run would be given, for a plan: nobody is kept from it. Errors as above.
Diagnostics use_likely_device(const DeviceUse& use, Console& console);

}  // namespace runner
