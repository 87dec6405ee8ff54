#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/devices/take_device.h"
#include "runner/graph/graph.h"
#include "runner/protocol/earlier_results.h"
#include "runner/record/recorded_run.h"
#include "runner/run/progress_display.h"
#include "runner/run/worker_process.h"

namespace runner {

/// Has `worker` compute `graph` on `device`: where that is a GPU that was chosen, its UUID is the worker's
/// CUDA_VISIBLE_DEVICES and it is cuda:0 there.
void hand_over(const TakenDevice& device, Graph& graph, WorkerCommand& worker);

/// {"asked", "why", "index", "uuid", "name", "driver", "is_only_visible"}, for a run's environment.json; only the first
/// two where it is no known GPU.
nlohmann::ordered_json device_record(const DeviceWish& wish, const TakenDevice& device);

/// The wish of a run that is taken up again, unless its device was changed: what it came to then is part of the bits.
/// Of a GPU that was chosen it is that one if it is free, else another; never the CPU.
DeviceWish wish_again(DeviceWish wish, const RecordedRun& run);

/// Asks a worker, from which all GPUs are hidden, for the plan of `graph` on the device at hand; its mistakes end the
/// search. In a run that is resumed (`is_resumed`) they need not concern what is left to do: what could be planned
/// counts. All are borrowed.
NeedOf planned_need(const Graph& graph, const WorkerCommand& worker, ReuseOptions::Which reuse, bool is_resumed,
                    const std::filesystem::path& node_index, ProgressDisplay& display);

}  // namespace runner
