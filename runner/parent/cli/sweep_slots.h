#pragma once

#include <cstdint>
#include <string>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/sweep/slot_memory.h"

namespace runner {

/// The value of --slots: the number of trials that run at once, or auto.
struct SlotRequest {
  std::int64_t slots = 1;
  bool is_auto = false;
};

/// Parses "4" or "auto"; fails with kUsage for anything else.
Result<SlotRequest> slot_request(const std::string& text);

/// Returns a SlotMemory for trials on this machine. To find out how much memory a trial needs, a
/// worker plans its recipe, unless it neither trains nor evaluates; with `strict`, without real
/// steps. Borrows all arguments.
SlotMemory slot_memory(const SchemaSet& schemas, const ReuseFlags& reuse, bool strict,
                       const LogFlags& log, Console& console);

/// A sweep that runs `slots` trials at once on this machine.
struct SweepInSlots {
  PreparedSweep sweep;
  std::int64_t slots = 1;
};

/// Like prepare_sweep(), for the requested number of slots, but fails if that many trials do not
/// fit in memory together. With auto, uses as many slots as fit, limited by the number of trials
/// and by the processor's threads. Prints the outcome on one line. With one slot or on a cluster,
/// nothing is planned.
Result<SweepInSlots> prepare_in_slots(const NamedRecipe& named, const SchemaSet& schemas,
                                      const SlotRequest& request, const ReuseFlags& reuse,
                                      const LogFlags& log, Console& console);

/// Returns how many trials run at once. Their recipes are final, and each uses at most `threads`
/// threads. `memory` contains the trials that have yet to run. Fails if the requested number of
/// trials does not fit.
Result<std::int64_t> choose_slots(const SlotMemory& memory, const SlotRequest& request,
                                  std::int64_t threads, Console& console);

/// Returns how many trials with `threads` threads each can run at once on the processor; at least
/// 1.
std::int64_t slots_for_threads(std::int64_t threads);

}  // namespace runner
