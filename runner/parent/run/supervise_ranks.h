#pragma once

#include <functional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/run/supervise.h"

namespace runner {

/// How to run the ranks other than rank 0; rank 0 is handled like a single worker.
struct OtherRanks {
  int count = 1;  ///< number of all ranks, including rank 0
  /// Makes `command` compute on the device of `rank`; empty: all ranks use the device of rank 0.
  std::function<void(int rank, WorkerCommand& command)> hand_over = {};
  /// Returns the message that starts a rank; it is sent once rank 0 has received its own.
  std::function<nlohmann::ordered_json()> go = {};
  /// Called for each line sent or printed by a rank other than 0.
  std::function<void(int rank, std::string_view line)> on_line = {};
};

/// Like supervise(), for a graph with several ranks: starts a worker for each rank. Signals go only
/// to rank 0, since it does the saving; when rank 0 exits, the others exit too. If another rank
/// fails or is killed, returns that rank's ending, because rank 0 reports only that it lost the
/// rank. A rank that the others have given up on because it does not respond is killed.
Result<Ending> supervise_ranks(const WorkerCommand& command, const nlohmann::ordered_json& request,
                               Conversation first, const OtherRanks& others);

}  // namespace runner
