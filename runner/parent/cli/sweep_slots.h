#pragma once

#include <cstdint>
#include <string>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/sweep/slot_memory.h"

namespace runner {

/// The value of --slots: a number of trials at a time, or auto.
struct SlotWish {
  std::int64_t slots = 1;
  bool is_auto = false;
};

/// Parses "4" or "auto"; kUsage for anything else.
Result<SlotWish> slot_wish(const std::string& text);

/// The memory of trials on this machine. A worker plans each trial whose recipe trains or
/// evaluates. Everything is borrowed.
SlotMemory slot_memory(const SchemaSet& schemas, const ReuseFlags& reuse, const LogFlags& log,
                       Console& console);

/// A sweep that runs in `slots` slots on this machine.
struct SweepInSlots {
  PreparedSweep sweep;
  std::int64_t slots = 1;
};

/// prepare_sweep() for the requested number of slots, once the trials have been shown to fit
/// together. With auto, uses as many slots as fit, at most one per trial and one per `threads` of
/// the processor. Prints the outcome in one line. With one slot, or for a cluster, nothing is
/// planned.
Result<SweepInSlots> prepare_in_slots(const NamedRecipe& named, const SchemaSet& schemas,
                                      const SlotWish& wish, const ReuseFlags& reuse,
                                      const LogFlags& log, Console& console);

/// The same for trials with final recipes, with at most `threads` each; `memory` has those that are
/// still to run. Returns how many run at a time.
Result<std::int64_t> choose_slots(const SlotMemory& memory, const SlotWish& wish,
                                  std::int64_t threads, Console& console);

/// How many trials with that many threads run at a time if each hardware thread of the processor is
/// used once.
std::int64_t slots_for_threads(std::int64_t threads);

}  // namespace runner
