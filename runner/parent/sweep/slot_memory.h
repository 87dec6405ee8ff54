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

/// The peak memory that a trial needs on its device, from its plan.
struct TrialPeak {
  /// "cpu"; "cuda:1", a GPU named in the recipe; or "cuda", a GPU not used by other trials.
  std::string device = "cpu";
  std::int64_t bytes = 0;
  std::size_t gpus = 1;  ///< for "cuda": how many GPUs it uses, one for each rank
  /// The total memory of the device, {"the machine's memory", …}; 0 bytes: unknown.
  NamedBytes memory = {};
  /// The part of the trial that cannot be planned, and why; not included in `bytes`. May be empty.
  std::string unplanned = {};
};

/// Checks whether the trials of a sweep that run at the same time on one machine fit together: the
/// sum of their planned peaks must fit in each device's memory, and there must be a GPU for each
/// rank of the trials that need their own.
///
///   SlotMemory memory(plan_of, gpus);
///   for (const PreparedTrial& trial : trials) memory.add(trial.number, trial.recipe);
///   if (const Diagnostics errors = memory.check(slots); !errors.empty()) …
class SlotMemory {
 public:
  /// Returns the peak of a trial with the resolved `recipe`. Returns errors if it cannot be
  /// planned; the trial's run will report them again.
  using PlanOf = std::function<Result<TrialPeak>(const Value& recipe)>;

  /// `gpus`: the number of GPUs that trials can use exclusively.
  SlotMemory(PlanOf plan_of, std::size_t gpus) : plan_of_(std::move(plan_of)), gpus_(gpus) {}

  /// Plans a trial unless an equivalent one has already been planned. The seed, learning rates,
  /// name and run folder do not affect a plan.
  void add(std::uint64_t trial, const Value& recipe);
  /// Must be called when a trial has ended or will never run.
  void forget(std::uint64_t trial) { keys_.erase(trial); }

  /// kOutOfMemory if `slots` trials do not fit at the same time, with the bytes and what to do.
  Diagnostics check(std::int64_t slots) const;
  /// Returns how many trials fit at the same time, at least 1 and at most `most`.
  std::int64_t fitting(std::int64_t most) const;
  /// Returns "together they need at most 1.2 GiB of the machine's memory, 23.4 GiB"; empty if
  /// nothing was planned.
  std::string text(std::int64_t slots) const;
  /// Returns a line for each group of trials with memory that is not included.
  std::vector<std::string> uncounted() const;

 private:
  /// The trials on one device that need the most memory, at most `slots` of them; for "cuda", those
  /// that need the most GPUs.
  struct Load {
    std::string device;
    NamedBytes memory;
    std::int64_t bytes = 0;             ///< sum over `trials`
    std::size_t gpus = 0;               ///< sum over `trials`
    std::vector<std::uint64_t> trials;  ///< trials in decreasing order of memory
    bool fits(std::size_t there_are) const;
  };
  std::vector<Load> loads(std::int64_t slots) const;

  const PlanOf plan_of_;
  const std::size_t gpus_;
  std::map<std::string, Result<TrialPeak>> plans_;  // by planned_inputs()
  std::map<std::uint64_t, std::string> keys_;       // keys of plans_, by trial
};

}  // namespace runner
