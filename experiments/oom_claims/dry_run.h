#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/oom_claims/image_network.h"
#include "stages/plan/memory_trace.h"
#include "stages/train/step_plan.h"

namespace oom_claims {

/// A training run of an image classifier with AdamW.
struct Training {
  NetworkKind network;
  std::int64_t batch = 8;
  std::int64_t side = 224;  ///< width and height of the images, in pixels
  stages::StepPlan plan = {};
  std::optional<double> clip = {};         ///< maximum gradient norm
  std::int64_t late_step = 1;              ///< number of batches per optimizer step
  std::vector<std::int64_t> batches = {};  ///< the batch size of each step, if they differ
};

/// The record of a dry run on the Meta device, with the allocations that a GPU's kernels would
/// make.
struct DryRun {
  std::vector<stages::TracedStorage> storages;
  std::vector<stages::TraceEvent> events;
  std::vector<std::size_t>
      steps;  ///< the number of events at the start of each step and at the end of the last one
  double flops = 0;  ///< of all steps

  /// Returns the index of the last step's first event.
  std::size_t last_step() const { return steps[steps.size() - 2]; }
};

/// Records `steps` optimizer steps of a training run.
DryRun dry_run(const Training& training, std::int64_t steps = 2);

/// Records what `work` does on the Meta device, as one step.
DryRun recorded(const std::function<void(stages::MemoryTrace&)>& work);

/// Returns the peak of live bytes from event `first` on.
std::int64_t peak(const DryRun& run, std::size_t first);
/// Returns the peak of live bytes in the last step.
std::int64_t peak(const DryRun& run);
/// Returns the peak of live bytes during one phase of the last step.
std::int64_t peak_in(const DryRun& run, stages::StepPhase phase);
/// Returns the number of bytes that belong to `owner` at the peak of the last step.
std::int64_t owned_at_peak(const DryRun& run, stages::Owner owner);
/// Returns the bytes allocated for `owner` in the last step; for parameters and optimizer state,
/// all bytes that are live in it.
std::int64_t owned(const DryRun& run, stages::Owner owner);
/// Returns the bytes of the largest tensor allocated for `owner` in the last step.
std::int64_t largest(const DryRun& run, stages::Owner owner);

}  // namespace oom_claims
