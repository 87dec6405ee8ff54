#pragma once

#include <cstdint>
#include <functional>

#include "runner/shared/stage/memory_plan.h"
#include "stages/memory/policy.h"
#include "stages/plan/plan_alternatives.h"
#include "stages/plan/step_profile.h"

namespace stages {

/// The dry run of a training step under one policy.
struct TracedPolicy {
  runner::MemoryPlan plan;
  StepProfile profile;
};

/// The policies to choose from and the criteria for the choice.
struct PolicySearch {
  const MemoryPolicy& written;  ///< leaves_a_choice() must be true
  CutBatch batch;
  std::int64_t budget;     ///< bytes
  bool has_host;           ///< the device has its own memory, separate from the host's
  bool has_ranks = false;  ///< several ranks can shard the optimizer state
  std::function<TracedPolicy(const MemoryPolicy&)>
      trace;  ///< throws runner::StageError for an invalid policy
  std::function<double(const StepWork&)> seconds;  ///< predicts the time of a step
};

/// A step and how it is computed.
struct PlannedStep {
  MemoryPolicy policy;      ///< leaves nothing open
  runner::MemoryPlan plan;  ///< its memory plan, with the choice and the alternatives considered
};

/// Finds the fastest configuration of a step within the budget. It varies the options that the
/// policy leaves open: micro-batches of any size down to min_micro_batch, two passes if the loss
/// needs them, any subset of the network's blocks recomputed, the optimizer state (and gradients,
/// and parameters) sharded across the ranks or offloaded to host memory, and the optimizer step in
/// the backward pass. The last three are considered only if the whole batch does not fit without
/// them, and sharded parameters only if nothing else fits. The optimizer step is
/// not moved into the backward pass if retries are allowed: a step that updates weights in its
/// backward pass cannot be undone. The cost model (step_profile.h) predicts the time; if times are
/// equal, the configuration that uses less memory wins. If nothing fits, the one that uses the
/// least memory is chosen. The chosen configuration has always been traced.
PlannedStep choose_policy(const PolicySearch& search);

}  // namespace stages
