#pragma once

#include <cstdint>
#include <string>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/sweep/slot_memory.h"

namespace runner {

/// What --slots says: so many trials at a time, or auto.
struct SlotWish {
  std::int64_t slots = 1;
  bool is_auto = false;
};

/// Of "4" or "auto"; kUsage for anything else.
Result<SlotWish> slot_wish(const std::string& text);

/// The memory of trials on this machine, each planned by a worker where a recipe trains or
/// evaluates. All are borrowed.
SlotMemory slot_memory(const SchemaSet& schemas, const ReuseFlags& reuse, const LogFlags& log,
                       Console& console);

/// A sweep as it is run in slots on this machine, with `slots` settled.
struct SweepInSlots {
  PreparedSweep sweep;
  std::int64_t slots = 1;
};

/// prepare_sweep() for as many slots as are wished, where the trials have been shown to fit
/// together; with auto, for as many as fit, at most one for each trial and for each `threads` of
/// the processor. What comes of it is said in a line. With one slot, and of what is for a cluster,
/// nothing is planned.
Result<SweepInSlots> prepare_in_slots(const NamedRecipe& named, const SchemaSet& schemas,
                                      const SlotWish& wish, const ReuseFlags& reuse,
                                      const LogFlags& log, Console& console);

/// The same for trials whose recipes are settled, with at most `threads` each: `memory` has those
/// that are still to run. How many run at a time.
Result<std::int64_t> choose_slots(const SlotMemory& memory, const SlotWish& wish,
                                  std::int64_t threads, Console& console);

/// How many trials run at a time where each has that many threads, and each processor's thread is
/// used once.
std::int64_t slots_for_threads(std::int64_t threads);

}  // namespace runner
