#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stages/plan/memory_trace.h"
#include "stages/plan/time_model.h"

namespace stages {

/// What a step needs while a certain block of the network runs, forward or backward.
struct BlockProfile {
  std::string path;       ///< of the module, as the trace names it
  std::int64_t held = 0;  ///< what it has saved when the forward pass of a part of the batch is over, at most
  std::int64_t peak = 0;  ///< the most that is live while it runs, of everybody
  StepWork forward;       ///< of all its forward passes that make a graph or save their input
};

/// Where in a step its memory is needed, by the blocks of the network in the order in which they run first.
struct StepProfile {
  std::vector<BlockProfile> blocks;
  /// The most that is live outside of all blocks while so many of them are held; one more than there are blocks.
  std::vector<std::int64_t> between;
  std::int64_t elsewhere = 0;  ///< the most that is live in other phases: the optimizer, a validation, a checkpoint
};

/// What `trace` says of that from event `first_event` on; `blocks` are paths of modules, none within another. A block
/// that never runs is left out. In a backward pass, where no module runs, an event is taken for that of the block whose
/// saved activation was last made or freed.
StepProfile profile(const MemoryTrace& trace, std::size_t first_event, const std::vector<std::string>& blocks);

}  // namespace stages
