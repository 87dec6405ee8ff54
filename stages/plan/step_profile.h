#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/plan/memory_trace.h"

namespace stages {

/// The work of a step, in numbers that do not depend on the machine.
struct StepWork {
  double flops = 0;
  double traffic = 0;     ///< bytes that are written, each of which is read about once
  double operations = 0;  ///< that are started
  double moved = 0;       ///< bytes copied between the host and a GPU
};

/// The predicted seconds of such a step on a device of the backend's kind: compute, memory and
/// launches added up, with constants for the kind. Nothing is timed, so a recipe gets the same plan
/// everywhere. It is good only for ranking ways of computing the same step.
double predicted_seconds(const StepWork& work, const Backend& backend);

/// Changes when the constants do: "time-2".
std::string_view time_model_version();

/// The memory of a step while a certain block of the network runs, forward or backward.
struct BlockProfile {
  std::string path;       ///< of the module, as the trace names it
  std::int64_t held = 0;  ///< upper bound of what it has saved at the end of the forward pass of a
                          ///< part of the batch
  std::int64_t peak = 0;  ///< the most that is live while it runs, of all owners
  StepWork forward;       ///< all of its forward passes that make a graph or save their input
};

/// Where in a step its memory is needed, by the blocks of the network in the order of their first
/// run.
struct StepProfile {
  std::vector<BlockProfile> blocks;
  /// The most that is live outside all blocks while that number of blocks are held; it has one
  /// element more than there are blocks.
  std::vector<std::int64_t> between;
  std::int64_t elsewhere =
      0;  ///< the most that is live in other phases: the optimizer, a validation, a checkpoint
};

/// The profile of `trace` from event `first_event` on. `blocks` are paths of modules, none within
/// another. A block that never runs is left out. In a backward pass, where no module runs, an event
/// belongs to the block whose saved activation was last made or freed.
StepProfile profile(const MemoryTrace& trace, std::size_t first_event,
                    const std::vector<std::string>& blocks);

/// Which blocks of a network to recompute in the backward pass, by their order: the choice that
/// takes the least time among those that need at most `bytes`. It uses dynamic programming over the
/// chain of blocks (Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost",
/// 2016; Beaumont and others, "Optimal checkpointing for heterogeneous chains", 2019; here each
/// block is kept or recomputed as a whole). nullopt: recomputing all of them is not enough.
///
/// `kept` is the profile of a step that recomputes no block, `recomputed` that of the same step
/// recomputing all of them; mixtures are combined from the two. `seconds` predicts the time of a
/// block's forward pass.
std::optional<std::vector<bool>> choose_blocks(
    const StepProfile& kept, const StepProfile& recomputed, std::int64_t bytes,
    const std::function<double(const StepWork&)>& seconds);

/// The bytes that a step needs if it recomputes these blocks, by the same calculation.
std::int64_t bytes_needed(const StepProfile& kept, const StepProfile& recomputed,
                          const std::vector<bool>& blocks);

}  // namespace stages
