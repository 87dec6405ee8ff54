#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/value/value.h"

namespace runner {

/// A trial's peak memory need on its device, by its plan.
struct TrialPeak {
  std::string device =
      "cpu";  ///< or "cuda:1", a GPU that its recipe names; "cuda": a GPU that no other trial has
  std::int64_t bytes = 0;
  NamedBytes memory =
      {};  ///< everything the device has, {"the machine's memory", …}; 0 bytes: not known
  std::string unplanned =
      {};  ///< the part of the trial that cannot be planned, and why; not in `bytes`; may be empty
};

/// Whether the trials of a sweep that run at the same time on one machine fit together. For any
/// such set, the sum of their planned peaks must fit in the memory of each device, and there must
/// be a GPU for each trial that needs its own.
///
///   SlotMemory memory(plan_of, gpus);
///   for (const PreparedTrial& trial : trials) memory.add(trial.number, trial.recipe);
///   if (const Diagnostics errors = memory.check(slots); !errors.empty()) …
class SlotMemory {
 public:
  /// The peak of a trial with that resolved recipe; errors if it cannot be planned, which its run
  /// will report again.
  using PlanOf = std::function<Result<TrialPeak>(const Value& recipe)>;

  /// `gpus`: number of GPUs that trials may have to themselves.
  SlotMemory(PlanOf plan_of, std::size_t gpus) : plan_of_(std::move(plan_of)), gpus_(gpus) {}

  /// Plans a trial, unless an equivalent one was planned: the seed, learning rates, its name and
  /// where it runs do not affect a plan.
  void add(std::uint64_t trial, const Value& recipe);
  /// The trial has ended, or will never run.
  void forget(std::uint64_t trial) { keys_.erase(trial); }

  /// kOutOfMemory if `slots` trials at a time do not fit together, with the bytes and what to do.
  Diagnostics check(std::int64_t slots) const;
  /// How many fit, at least 1 and at most `most`.
  std::int64_t fitting(std::int64_t most) const;
  /// "together they need at most 1.2 GiB of the machine's memory, 23.4 GiB"; empty if nothing was
  /// planned.
  std::string text(std::int64_t slots) const;
  /// What is not counted, one line each.
  std::vector<std::string> uncounted() const;

 private:
  /// The trials on one device that need the most, at most `slots` of them.
  struct Load {
    std::string device;
    NamedBytes memory;
    std::int64_t bytes = 0;             ///< of all of them
    std::vector<std::uint64_t> trials;  ///< the largest first
    bool fits(std::size_t gpus) const;
  };
  std::vector<Load> loads(std::int64_t slots) const;

  const PlanOf plan_of_;
  const std::size_t gpus_;
  std::map<std::string, Result<TrialPeak>> plans_;  // by what a plan depends on
  std::map<std::uint64_t, std::string> keys_;       // in plans_, by trial
};

}  // namespace runner
