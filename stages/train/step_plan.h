#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "stages/memory/policy.h"
#include "stages/numerics/numerics.h"
#include "stages/train/training_kind.h"

namespace stages {

/// How a batch is cut to fit the device, and how its parts are computed; the trainer obeys it.
struct StepPlan {
  std::int64_t micro_batch = 0;  ///< units run at once; 0: the whole batch
  bool two_pass = false;         ///< encode micro-batches twice, and take the loss of the whole batch in between
  Numerics numerics = {};
  ActivationCheckpointing activation_checkpointing = {};  ///< its modules are paths in the network
  bool offloads_optimizer = false;                        ///< its state lies in the host's memory between steps
  bool optimizer_in_backward = false;                     ///< it steps each parameter once its gradient is there
  bool operator==(const StepPlan&) const = default;
};

/// The plan that `policy` asks for, for batches of at most `units`. Throws runner::StageError when such a cut would
/// train something else than the whole batch does; with two passes a loss over the whole batch can be cut. Layers that
/// mix samples are cut only where the recipe asks for that by name, `declares_cut`, and never take a single one.
StepPlan make_step_plan(const TrainingStep& step, const MemoryPolicy& policy, std::int64_t units, Numerics numerics,
                        ActivationCheckpointing activation_checkpointing, bool declares_cut = false);

/// The fewest units of a batch, or of a part of one, that the step can learn from: 2 where layers of its network mix
/// the samples of a batch.
std::int64_t least_units(const TrainingStep& step);

/// Throws runner::StageError: the policy's optimizer_in_backward cannot be obeyed, `why`.
[[noreturn]] void refuse_in_backward(const MemoryPolicy& policy, const std::string& why, const std::string& help);

/// {"micro_batch", "two_pass", "activation_checkpointing"}, "offload" and "optimizer_in_backward" where they are on,
/// and what to_json(Numerics) says: for the record of the very steps that were run.
nlohmann::ordered_json to_json(const StepPlan& plan);

/// How many parts a batch of `units` is measured in: its micro-batches, or in two passes one.
std::int64_t parts(const StepPlan& plan, std::int64_t units);

}  // namespace stages
