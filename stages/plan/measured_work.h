#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/machine/allocator_settings.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// What work takes for numbers of samples for which it has not been run, from what it took for a
/// few small ones. Work on more samples is taken to do the same with larger tensors: each storage
/// grows as it did from one number to the next, or with the square of the number if it grew faster
/// than the number. Only the last runs with the same events count, since one sample alone often
/// takes another course. If even the last two differ, all that they took at most, except for
/// gradients, is taken to grow with the number.
class MeasuredWork {
 public:
  /// More units than before.
  void add(std::int64_t units, RecordedWork work);
  bool empty() const { return runs_.empty(); }
  /// An upper bound for `units`, if values do not matter. There must have been a run.
  RecordedWork at(std::int64_t units) const;
  /// The bytes that work on `units` allocates, and how often it allocates any.
  std::pair<double, double> allocations(std::int64_t units) const;

 private:
  struct Run {
    std::int64_t units;
    RecordedWork work;
  };
  /// The first of the last runs with the same events.
  std::size_t first_alike() const;

  std::vector<Run> runs_;
};

/// The most that is live in `work` beyond what is live before it.
std::int64_t most_live(const RecordedWork& work);

/// Joins measured work, one after another, to a plan:
///
///   MeasuredHistory history;
///   for (const TracedStorage& weight : weights) history.keep(weight);
///   history.add(step.at(64));
///   const std::size_t last = history.events();
///   history.add(step.at(64));
///   runner::MemoryPlan plan = history.plan(last, 64, backend, settings);
class MeasuredHistory {
 public:
  /// Memory that is there from now on.
  void keep(TracedStorage storage);
  /// `work`, with `besides` bytes more while it lasts. What it leaves stays.
  void add(const RecordedWork& work, std::int64_t besides = 0);
  /// Memory that is taken and given back.
  void pass(TracedStorage storage);

  std::size_t events() const { return work_.events.size(); }

  /// The plan from an event on, as summarize() makes it, with a margin for other values. `units`:
  /// how many are run at once.
  runner::MemoryPlan plan(std::size_t first_event, std::int64_t units, const Backend& backend,
                          const AllocatorSettings& settings) const;

 private:
  RecordedWork work_;
};

}  // namespace stages
