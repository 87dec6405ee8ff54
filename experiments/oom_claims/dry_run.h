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

/// A training of a classifier of images, by AdamW.
struct Training {
  NetworkKind network;
  std::int64_t batch = 8;
  std::int64_t side = 224;  ///< of an image, in pixels
  stages::StepPlan plan = {};
  std::optional<double> clip = {};  ///< the norm
  std::int64_t late_step = 1;  ///< batches whose gradients are added up before the optimizer's step
  std::vector<std::int64_t> batches = {};  ///< of each step in turn, where they differ
};

/// What a dry run on the Meta device has recorded, of a GPU's kernels.
struct DryRun {
  std::vector<stages::TracedStorage> storages;
  std::vector<stages::TraceEvent> events;
  std::vector<std::size_t>
      steps;         ///< the events' number when each step began, and when the last ended
  double flops = 0;  ///< of all steps

  /// Events of the last step.
  std::size_t last_step() const { return steps[steps.size() - 2]; }
};

/// So many optimizer steps of a training.
DryRun dry_run(const Training& training, std::int64_t steps = 2);

/// Whatever `work` does on the Meta device, as one step.
DryRun recorded(const std::function<void(stages::MemoryTrace&)>& work);

/// The most that is live at once from event `first` on, in bytes.
std::int64_t peak(const DryRun& run, std::size_t first);
/// The most that is live at once in the last step.
std::int64_t peak(const DryRun& run);
/// The same while one phase of it runs.
std::int64_t peak_in(const DryRun& run, stages::StepPhase phase);
/// What is live at that peak and belongs to `owner`.
std::int64_t owned_at_peak(const DryRun& run, stages::Owner owner);
/// All that is born for `owner` in the last step; of parameters and optimizer state all that lives
/// in it.
std::int64_t owned(const DryRun& run, stages::Owner owner);
/// The largest that is born for `owner` in the last step.
std::int64_t largest(const DryRun& run, stages::Owner owner);

}  // namespace oom_claims
