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

/// What a step is made of, in numbers that do not depend on the machine.
struct StepWork {
  double flops = 0;
  double traffic = 0;     ///< bytes that are written, each of which is read about once
  double operations = 0;  ///< that are started
  double moved = 0;       ///< bytes that are copied between the host and a GPU
};

/// Seconds that such a step takes on a device of the backend's kind, by constants for the kind:
/// compute, memory and launches added up. Nothing is timed, so the same recipe gets the same plan
/// everywhere. Good for ranking ways of computing the same step, and for nothing else.
double predicted_seconds(const StepWork& work, const Backend& backend);

/// Changes when the constants do: "time-2".
std::string_view time_model_version();

/// What a step needs while a certain block of the network runs, forward or backward.
struct BlockProfile {
  std::string path;  ///< of the module, as the trace names it
  std::int64_t held =
      0;  ///< what it has saved when the forward pass of a part of the batch is over, at most
  std::int64_t peak = 0;  ///< the most that is live while it runs, of everybody
  StepWork forward;       ///< of all its forward passes that make a graph or save their input
};

/// Where in a step its memory is needed, by the blocks of the network in the order in which they
/// run first.
struct StepProfile {
  std::vector<BlockProfile> blocks;
  /// The most that is live outside of all blocks while so many of them are held; one more than
  /// there are blocks.
  std::vector<std::int64_t> between;
  std::int64_t elsewhere =
      0;  ///< the most that is live in other phases: the optimizer, a validation, a checkpoint
};

/// What `trace` says of that from event `first_event` on; `blocks` are paths of modules, none
/// within another. A block that never runs is left out. In a backward pass, where no module runs,
/// an event is taken for that of the block whose saved activation was last made or freed.
StepProfile profile(const MemoryTrace& trace, std::size_t first_event,
                    const std::vector<std::string>& blocks);

/// Which blocks of a network are recomputed in the backward pass, by their order: the choice that
/// takes the least time among those that need at most `bytes`, by dynamic programming over the
/// chain of blocks (Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost",
/// 2016; Beaumont and others, "Optimal checkpointing for heterogeneous chains", 2019; here each
/// block is kept or recomputed as a whole). nullopt: not even all of them are enough.
///
/// `kept` is the profile of a step that recomputes no block, `recomputed` that of the same step
/// when it recomputes all of them; a mixture is put together of the two. `seconds` says what a
/// block's forward pass takes.
std::optional<std::vector<bool>> choose_blocks(
    const StepProfile& kept, const StepProfile& recomputed, std::int64_t bytes,
    const std::function<double(const StepWork&)>& seconds);

/// What a step needs that recomputes these blocks, by the same reckoning.
std::int64_t bytes_needed(const StepProfile& kept, const StepProfile& recomputed,
                          const std::vector<bool>& blocks);

}  // namespace stages
