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

/// What a trial needs at its peak where it runs, by its plan.
struct TrialPeak {
  std::string device =
      "cpu";  ///< or "cuda:1", a GPU that its recipe names; "cuda": a GPU that no other trial has
  std::int64_t bytes = 0;
  NamedBytes memory =
      {};  ///< all that the device has, {"the machine's memory", …}; 0 bytes: it is not known
  std::string unplanned =
      {};  ///< a part of it that cannot be planned, and why: that is not in `bytes`; may be empty
};

/// Whether the trials of a sweep that run at a time on one machine fit together: whichever these
/// are, the sum of their planned peaks must be within the memory of each device, and there must be
/// a GPU for each that wants its own.
///
///   SlotMemory memory(plan_of, gpus);
///   for (const Job& job : jobs) memory.add(job.number, job.recipe);
///   if (const Diagnostics errors = memory.check(slots); !errors.empty()) …
class SlotMemory {
 public:
  /// The peak of a trial with that resolved recipe; errors where it cannot be planned, as its run
  /// will find again.
  using PlanOf = std::function<Result<TrialPeak>(const Value& recipe)>;

  /// `gpus`: that trials may have to themselves.
  SlotMemory(PlanOf plan_of, std::size_t gpus) : plan_of_(std::move(plan_of)), gpus_(gpus) {}

  /// Plans a trial, unless one has been planned from which it differs in nothing that a plan
  /// depends on: the seed, learning rates, its name and where it runs are no part of that.
  void add(std::uint64_t trial, const Value& recipe);
  /// It does not run any more, or never will.
  void forget(std::uint64_t trial) { keys_.erase(trial); }

  /// kOutOfMemory where `slots` trials at a time do not fit together, with the bytes and what to
  /// do.
  Diagnostics check(std::int64_t slots) const;
  /// How many fit, at least 1 and at most `most`.
  std::int64_t fitting(std::int64_t most) const;
  /// "together they need at most 1.2 GiB of the machine's memory, 23.4 GiB"; empty where nothing
  /// was planned.
  std::string text(std::int64_t slots) const;
  /// What is not counted, a line each.
  std::vector<std::string> uncounted() const;

 private:
  /// Of the trials on one device those that need the most, `slots` or all.
  struct Load {
    std::string device;
    NamedBytes memory;
    std::int64_t bytes = 0;             ///< of all
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
