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

/// Has `worker` compute on `device`: where that is a GPU that was chosen, its UUID is the worker's
/// CUDA_VISIBLE_DEVICES and it is cuda:0 there; else the worker sees what this process does.
void hand_over(const TakenDevice& device, WorkerCommand& worker);

/// `worker`, from which all GPUs are hidden.
WorkerCommand without_gpus(WorkerCommand worker);

/// {"asked", "why", "index", "uuid", "name", "driver", "is_only_visible"}, for a run's
/// environment.json; only the first two where it is no known GPU.
nlohmann::ordered_json device_record(const DeviceWish& wish, const TakenDevice& device);

/// The wish of a run that is taken up again, unless its device was changed: what it came to then is
/// part of the bits. Of a GPU that was chosen it is that one if it is free, else another; never the
/// CPU.
DeviceWish wish_again(DeviceWish wish, const RecordedRun& run);

/// The device of a verb that computes.
struct OwnDevice {
  TakenDevice taken;              ///< to be kept as long as the worker is at work
  nlohmann::ordered_json record;  ///< device_record()

  /// "GPU 2 (NVIDIA L4)", "cpu".
  std::string text() const;
};

/// Takes a GPU for a run to go on on, none of those with the UUIDs `left`. Errors where none is to
/// be had, or where a signal has ended the wait for one (stopped_by() of stop.h).
using NextGpu = std::function<Result<OwnDevice>(const std::vector<std::string>& left)>;

/// What is to be planned for a device; all but the last two is borrowed.
struct RunToPlan {
  const Graph& graph;
  const WorkerCommand& worker;
  const CheckpointSources& trained;  ///< trainings that are not part of it
  ReuseOptions::Which reuse = ReuseOptions::Which::kCacheable;
  /// A part of it is done: mistakes need not concern what is left, and what could be planned
  /// counts.
  bool is_resumed = false;
  std::filesystem::path node_index = {};
};

/// Asks a worker, from which all GPUs are hidden, what the prediction that is asked for by
/// `request` needs on the device at hand. All are borrowed.
NeedOf planned_need_of_prediction(const WorkerCommand& worker,
                                  const nlohmann::ordered_json& request, ProgressDisplay& display);

/// Asks a worker, from which all GPUs are hidden, for the plan of `run` on the device at hand; its
/// mistakes end the search. `display` is borrowed.
NeedOf planned_need(const RunToPlan& run, ProgressDisplay& display);

}  // namespace runner
