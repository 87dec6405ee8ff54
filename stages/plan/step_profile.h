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

/// A step's work, in machine-independent units.
struct StepWork {
  double flops = 0;
  double traffic = 0;     ///< bytes written; each is read about once
  double operations = 0;  ///< number of operations started
  double moved = 0;       ///< bytes copied between the host and a GPU
};

/// Predicts how many seconds a step takes on a device of the backend's type: the sum of compute,
/// memory traffic and launches, with constants for that type. Nothing is timed, so a recipe gets
/// the same plan everywhere. The result is only suitable for ranking ways to compute the same step.
double predicted_seconds(const StepWork& work, const Backend& backend);

/// Returns the version of the constants, "time-2"; it changes when they do.
std::string_view time_model_version();

/// The memory of a step while one block of the network runs, forward or backward.
struct BlockProfile {
  std::string path;       ///< path of the module in the trace
  std::int64_t held = 0;  ///< upper bound on the number of bytes that the block has saved at the
                          ///< end of the forward pass of a part of the batch
  std::int64_t peak = 0;  ///< peak of all live bytes while the block runs
  StepWork forward;       ///< its forward passes that build a graph or save their input
};

/// The memory of a step by block, in the order in which the blocks first run.
struct StepProfile {
  std::vector<BlockProfile> blocks;
  /// Element n is the peak of live bytes outside all blocks while the first n blocks have saved
  /// activations. There is one more element than there are blocks.
  std::vector<std::int64_t> between;
  std::int64_t elsewhere =
      0;  ///< peak of live bytes in other phases: the optimizer, a validation, a checkpoint
};

/// Returns the profile of `work`, starting at event `first_event`. `blocks` are paths of modules,
/// none of them inside another. A block that never runs is left out. In a backward pass, where no
/// module runs, an event belongs to the block that saved the activation most recently allocated or
/// freed.
StepProfile profile(const RecordedWork& work, std::size_t first_event,
                    const std::vector<std::string>& blocks);

/// Returns, per block, whether to recompute it in the backward pass: the fastest choice that needs
/// at most `bytes`; nullopt if recomputing all blocks is not enough. Uses dynamic programming over
/// the chain of blocks (Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory
/// cost", 2016; Beaumont et al., "Optimal checkpointing for heterogeneous chains", 2019; here each
/// block is kept or recomputed as a whole).
///
/// `kept` is the profile of a step that recomputes no block, `recomputed` that of the same step
/// with all blocks recomputed; mixtures are computed from the two. `seconds` predicts the time of a
/// block's forward pass.
std::optional<std::vector<bool>> choose_blocks(
    const StepProfile& kept, const StepProfile& recomputed, std::int64_t bytes,
    const std::function<double(const StepWork&)>& seconds);

/// Returns how many bytes a step needs if it recomputes `blocks`, according to the same
/// calculation.
std::int64_t bytes_needed(const StepProfile& kept, const StepProfile& recomputed,
                          const std::vector<bool>& blocks);

}  // namespace stages
