#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/machine/allocator_settings.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// Predicts the memory of work on any number of samples from runs with a few samples. Work on more
/// samples is assumed to do the same things with larger tensors: each storage grows as it did from
/// one run to the next, or with the square of the number of samples if it grew faster than
/// linearly. Only the most recent runs with identical events count, since a single sample often
/// takes a different path. If even the last two runs differ, the peak of all storages other than
/// gradients is assumed to grow with the number of samples.
class MeasuredWork {
 public:
  /// Adds a run. `units` must be larger than in the previous run.
  void add(std::int64_t units, RecordedWork work);
  bool empty() const { return runs_.empty(); }
  /// Returns an upper bound for work on `units` samples, provided that memory does not depend on
  /// tensor values. Call add() at least once first.
  RecordedWork at(std::int64_t units) const;
  /// Returns how many bytes the work on `units` samples allocates, and in how many allocations.
  std::pair<double, double> allocations(std::int64_t units) const;

 private:
  struct Run {
    std::int64_t units;
    RecordedWork work;
  };
  /// Returns the lowest index such that all runs from there on have identical events.
  std::size_t first_alike() const;

  std::vector<Run> runs_;
};

/// Returns the peak of live bytes in `work`, not counting what was live before.
std::int64_t most_live(const RecordedWork& work);

/// Joins the measurements of consecutive work into a plan:
///
///   MeasuredHistory history;
///   for (const TracedStorage& weight : weights) history.keep(weight);
///   history.add(step.at(64));
///   const std::size_t last = history.events();
///   history.add(step.at(64));
///   runner::MemoryPlan plan = history.plan(last, 64, backend, settings);
class MeasuredHistory {
 public:
  /// Adds memory that stays live from now on.
  void keep(TracedStorage storage);
  /// Adds `work`, with `extra` additional bytes live during it. Memory that `work` does not free
  /// stays live.
  void add(const RecordedWork& work, std::int64_t extra = 0);
  /// Adds memory that is allocated and immediately freed.
  void pass(TracedStorage storage);

  std::size_t events() const { return work_.events.size(); }

  /// Returns the plan starting at event `first_event`, as from summarize(), plus a margin, since
  /// other tensor values may need more memory. `units` is the number of samples that are run at
  /// once.
  runner::MemoryPlan plan(std::size_t first_event, std::int64_t units, const Backend& backend,
                          const AllocatorSettings& settings) const;

 private:
  RecordedWork work_;
};

}  // namespace stages
