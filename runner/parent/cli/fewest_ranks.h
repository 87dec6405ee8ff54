#pragma once

#include <string>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/cli/prepare.h"
#include "runner/shared/protocol/earlier_results.h"

namespace runner {

/// The parameters of a search for the number of ranks. The reference members are borrowed.
struct RankSearch {
  const NamedRecipe& recipe;
  const LogFlags& log;
  ReuseOptions::Which reuse;
  std::string only = {};    ///< only this node and the nodes that it needs; empty: all
  std::string budget = {};  ///< the memory of each rank, "8GiB"; empty: that of its device
  std::string gpu = {};     ///< a GPU that this machine does not have, "NVIDIA L4"
};

/// Prepares the recipe again with the smallest number of ranks with which every node fits, as if
/// the command line had set device.count to it; returns `prepared` unless its device.count is auto.
/// Tries up to one rank for each GPU that the run may use, up to 8 on the CPU, and up to 64 for a
/// GPU that is not in this machine. Says which number and why. Returns kOutOfMemory at
/// /device/count if no number fits, or the errors of a plan that fails for another reason.
Result<PreparedRecipe> with_fewest_ranks(PreparedRecipe prepared, const RankSearch& search,
                                         Console& console);

}  // namespace runner
