#pragma once

#include <optional>

#include "runner/parent/cli/console.h"
#include "runner/parent/devices/take_device.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/parent/run/chosen_device.h"
#include "runner/parent/run/signal_wait.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/value/value.h"

namespace runner {

/// The devices of this machine as a verb chooses among them: it says what it does on standard error, unless it is to be
/// quiet. All are borrowed; `wait` is how it lets time pass, where it waits.
DeviceWorld device_world(DeviceSource& source, Console& console, SignalWait* wait = nullptr);

/// For whom a device is chosen, and what is to happen there.
struct DeviceUse {
  const Value& recipe;                            ///< resolved; its device section
  Graph& graph;                                   ///< whose `device` is set
  WorkerCommand& worker;                          ///< whose variables are set
  const RecordedRun* run = nullptr;               ///< that is taken up again on its own device; null: a new one
  bool is_resumed = false;                        ///< a part of it is done
  CheckpointSources trained = {};                 ///< trainings that are not part of it
  std::optional<ReuseOptions::Which> reuse = {};  ///< a run's, whose plan says what it needs; nullopt: it is none
  NeedOf need = {};                               ///< of what is no run; empty: nobody knows
};

/// Takes the device that the recipe asks for. The errors have their places. A signal ends a wait for one.
Result<OwnDevice> take_own_device(const DeviceUse& use, Console& console);

/// Takes another GPU for the same, as the recipe's device section says of memory, of waiting and of what is excluded.
/// What `use` borrows, and `console`, must outlive it.
NextGpu next_gpu_for(const DeviceUse& use, Console& console);

/// The device that such a run would be given, for a plan: nobody is kept from it. Errors as above.
Diagnostics use_likely_device(const DeviceUse& use, Console& console);

}  // namespace runner
