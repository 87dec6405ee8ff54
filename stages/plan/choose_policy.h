#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/stage/memory_plan.h"
#include "stages/memory/policy.h"
#include "stages/plan/plan_alternatives.h"
#include "stages/plan/step_profile.h"

namespace stages {

/// A training under one policy, as its dry run predicts it.
struct TracedPolicy {
  runner::MemoryPlan plan;
  StepProfile profile;
};

/// The policies to choose from, and the criteria.
struct PolicySearch {
  const MemoryPolicy& written;  ///< leaves_a_choice()
  CutBatch batch;
  std::int64_t budget;     ///< bytes
  bool has_host;           ///< next to the device, which has a memory of its own
  bool has_ranks = false;  ///< several, among which state may be divided
  std::function<TracedPolicy(const MemoryPolicy&)>
      trace;  ///< throws runner::StageError for an invalid policy
  std::function<double(const StepWork&)> seconds;  ///< of a step
};

/// A step with the way of computing it.
struct PlannedStep {
  MemoryPolicy policy;      ///< leaves nothing open
  runner::MemoryPlan plan;  ///< its memory plan; reports what was chosen and what else was
                            ///< considered
};

/// Finds the fastest way of computing a step that fits the budget, among those that the policy
/// leaves open: micro-batches of any size down to min_micro_batch, two passes if the loss needs
/// them, any subset of the network's blocks recomputed, the optimizer's state divided among the
/// ranks or in host memory, and the optimizer in the backward pass. The last three are considered
/// only if the whole batch does not fit without them. The optimizer in the backward pass is not
/// chosen if retries are asked for either: a step that writes weights in its backward pass cannot
/// be undone. The cost model (step_profile.h) predicts the time; on equal times the way that needs
/// less memory wins. If nothing fits, the way that needs the least memory is chosen. A chosen way
/// has always been traced.
PlannedStep choose_policy(const PolicySearch& search);

/// The policy that `step`, MemoryPlan::step of an earlier plan for the network of `model_stage`,
/// stands for; nullopt if there is none or the written policy does not leave that open. Throws
/// std::runtime_error if `step` is invalid.
std::optional<MemoryPolicy> replayed_policy(const nlohmann::ordered_json& step,
                                            const MemoryPolicy& written,
                                            const std::string& model_stage);

}  // namespace stages
