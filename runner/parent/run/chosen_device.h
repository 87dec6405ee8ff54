#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/devices/take_device.h"
#include "runner/parent/run/progress_display.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// Makes `worker` compute on `device`. If that is a GPU that was chosen, the worker's
/// CUDA_VISIBLE_DEVICES is its UUID, and the GPU is cuda:0 there; else the worker sees what this
/// process sees.
void hand_over(const TakenDevice& device, WorkerCommand& worker);

/// A copy of `worker` with all GPUs hidden.
WorkerCommand without_gpus(WorkerCommand worker);

/// {"asked", "why", "index", "uuid", "name", "driver", "is_only_visible"}, for a run's
/// environment.json; only the first two if it is not a known GPU.
nlohmann::ordered_json device_record(const DeviceWish& wish, const TakenDevice& device);

/// The device wish of a run that continues, unless its device option was changed: the earlier
/// choice is part of the bits. If a GPU was chosen, wishes for that GPU if it is free, else
/// another; never the CPU.
DeviceWish wish_again(DeviceWish wish, const RecordedRun& run);

/// The device that a verb computes on.
struct OwnDevice {
  TakenDevice taken;              ///< keep it while the worker is running
  nlohmann::ordered_json record;  ///< device_record()
  /// The GPUs of ranks 1, 2, ...; empty if all ranks compute on `taken`.
  std::vector<TakenDevice> of_other_ranks = {};

  /// "GPU 2 (NVIDIA L4)", "cpu".
  std::string text() const;
};

/// Takes a GPU for a run to continue on, except those with the UUIDs `left`. Errors if there is
/// none, or if a signal ended the wait for one (stopped_by() in diagnostic.h).
using NextGpu = std::function<Result<OwnDevice>(const std::vector<std::string>& left)>;

/// What to plan for a device; everything but the last two is borrowed.
struct RunToPlan {
  const Graph& graph;
  const WorkerCommand& worker;
  const CheckpointSources& trained;  ///< trainings that are not part of the graph
  ReuseOptions::Which reuse = ReuseOptions::Which::kCacheable;
  /// A part of the run is done: errors may not concern the rest, so whatever could be planned
  /// counts.
  bool is_resumed = false;
  std::filesystem::path node_index = {};
};

/// Asks a worker, with all GPUs hidden, what the prediction `request` needs on the given device.
/// Everything is borrowed.
NeedOf needed_by_prediction(const WorkerCommand& worker, const nlohmann::ordered_json& request,
                            ProgressDisplay& display);

/// Asks a worker, with all GPUs hidden, for the plan of `run` on the given device; its errors end
/// the search. `display` is borrowed.
NeedOf needed_by_run(const RunToPlan& run, ProgressDisplay& display);

}  // namespace runner
