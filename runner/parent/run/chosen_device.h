#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/devices/take_device.h"
#include "runner/parent/run/plan_request.h"
#include "runner/parent/run/progress_display.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// Makes `worker` compute on `device`. If a GPU was chosen, sets the worker's CUDA_VISIBLE_DEVICES
/// to the UUID of that GPU, which is then the worker's cuda:0. Otherwise, the worker sees the same
/// devices as this process.
void hand_over(const TakenDevice& device, WorkerCommand& worker);

/// Returns a copy of `worker` with all GPUs hidden.
WorkerCommand without_gpus(WorkerCommand worker);

/// Returns {"asked", "why", "index", "uuid", "name", "driver", "is_only_visible"} for a run's
/// environment.json; only the first two keys unless `device` is a known GPU.
nlohmann::ordered_json device_record(const DeviceRequest& request, const TakenDevice& device);

/// Returns the device request of a run that continues with an unchanged device option. Keeps the
/// earlier choice, because the exact bits of the result depend on it: if a GPU was chosen, prefers
/// that GPU and otherwise accepts another one, but never the CPU.
DeviceRequest request_again(DeviceRequest request, const RecordedRun& run);

/// The device that a verb computes on.
struct OwnDevice {
  TakenDevice taken;              ///< must stay alive while the worker is running
  nlohmann::ordered_json record;  ///< device_record()
  /// The GPUs of ranks 1, 2, ...; empty if all ranks compute on `taken`.
  std::vector<TakenDevice> of_other_ranks = {};

  /// Returns "GPU 2 (NVIDIA L4)" or "cpu", for messages.
  std::string text() const;
};

/// Takes a GPU for a run to continue on, excluding those with a UUID in `left`. Returns errors if
/// there is none, or if a signal ended the wait for one (stopped_by() in diagnostic.h).
using NextGpu = std::function<Result<OwnDevice>(const std::vector<std::string>& left)>;

/// Makes `request` ask for a plan on `device`, within its free memory.
void plan_on(const DeviceFacts& device, PlanRequest& request);

/// A run to plan for a device. The reference members are borrowed.
struct RunToPlan {
  const Graph& graph;
  const WorkerCommand& worker;
  const CheckpointSources& trained;  ///< training runs that are not part of the graph
  ReuseOptions::Which reuse = ReuseOptions::Which::kCacheable;
  /// Set if part of the run is already done. Errors are then ignored, because they may concern only
  /// that part, and only the nodes that could be planned are considered.
  bool is_resumed = false;
  std::filesystem::path node_index = {};
};

/// Returns a function that asks a worker, with all GPUs hidden, how much memory the prediction
/// `request` needs on a given device. All arguments are borrowed.
NeedOf needed_by_prediction(const WorkerCommand& worker, const nlohmann::ordered_json& request,
                            ProgressDisplay& display);

/// Returns a function that asks a worker, with all GPUs hidden, how much memory `run` needs on a
/// given device. Its errors end the search. `display` is borrowed.
NeedOf needed_by_run(const RunToPlan& run, ProgressDisplay& display);

}  // namespace runner
