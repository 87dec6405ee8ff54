#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "stages/plan/step_profile.h"

namespace stages {

/// Which blocks of a network are recomputed in the backward pass, by their order: the choice that takes the least time
/// among those that need at most `bytes`, by dynamic programming over the chain of blocks (Chen, Xu, Zhang and
/// Guestrin, "Training deep nets with sublinear memory cost", 2016; Beaumont and others, "Optimal checkpointing for
/// heterogeneous chains", 2019; here each block is kept or recomputed as a whole). nullopt: not even all of them are
/// enough.
///
/// `kept` is the profile of a step that recomputes no block, `recomputed` that of the same step when it recomputes all
/// of them; a mixture is put together of the two. `seconds` says what a block's forward pass takes.
std::optional<std::vector<bool>> choose_blocks(const StepProfile& kept, const StepProfile& recomputed,
                                               std::int64_t bytes,
                                               const std::function<double(const StepWork&)>& seconds);

/// What a step needs that recomputes these blocks, by the same reckoning.
std::int64_t bytes_needed(const StepProfile& kept, const StepProfile& recomputed, const std::vector<bool>& blocks);

}  // namespace stages
