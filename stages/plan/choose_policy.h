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

/// A training under one policy, as its dry run shows it.
struct TracedPolicy {
  runner::MemoryPlan plan;
  StepProfile profile;
};

/// What may be chosen among, and by what.
struct PolicySearch {
  const MemoryPolicy& written;  ///< leaves_a_choice()
  CutBatch batch;
  std::int64_t budget;  ///< bytes
  bool has_host;        ///< beside the device, with a memory of its own
  std::function<TracedPolicy(const MemoryPolicy&)>
      trace;  ///< throws runner::StageError for what is not legal
  std::function<double(const StepWork&)> seconds;  ///< of a step
};

struct ChosenPolicy {
  MemoryPolicy policy;      ///< leaves nothing open
  runner::MemoryPlan plan;  ///< what it needs; it says what was chosen, and what else was looked at
};

/// The quickest way of computing a step that fits the budget, among those that the policy leaves
/// open: micro-batches of any size down to min_micro_batch, two passes where the loss needs them,
/// any subset of the network's blocks recomputed, the optimizer in the backward pass, its state in
/// the host's memory. The last two are looked at where the whole batch does not fit without: a step
/// in whose backward pass weights are written cannot be undone, so it is not chosen where retries
/// are asked for either. The time is that of the model (time_model.h); of equal times the one that
/// needs less memory counts. Where nothing fits, the way that needs the least. Nothing is chosen
/// that is not traced.
ChosenPolicy choose_policy(const PolicySearch& search);

/// The policy that `step`, MemoryPlan::step of an earlier plan for the network of `model_stage`,
/// stands for; nullopt where there is none or the written policy does not leave that open. Throws
/// std::runtime_error for what is no step.
std::optional<MemoryPolicy> replayed_policy(const nlohmann::ordered_json& step,
                                            const MemoryPolicy& written,
                                            const std::string& model_stage);

}  // namespace stages
