#pragma once

#include <functional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/run/supervise.h"

namespace runner {

/// How to run the ranks other than rank 0, which is handled like a single worker.
struct OtherRanks {
  int count = 1;  ///< number of all ranks, including rank 0
  /// Makes `command` compute on the device of `rank`; empty: all ranks use the device of rank 0.
  std::function<void(int rank, WorkerCommand& command)> hand_over = {};
  /// Returns the message that starts a rank, sent once rank 0 has received its own.
  std::function<nlohmann::ordered_json()> go;
  /// Called for each line that a rank, 1 or higher, has sent or printed.
  std::function<void(int rank, std::string_view line)> on_line;
};

/// supervise() for a graph with several ranks: starts a worker for each rank. Signals go only to
/// rank 0, since it saves; when rank 0 exits, the others exit too. If another rank fails or is
/// killed, the returned ending is that rank's, because rank 0 only reports that it lost that rank.
Result<Ending> supervise_ranks(const WorkerCommand& command, const nlohmann::ordered_json& request,
                               Conversation first, const OtherRanks& others);

}  // namespace runner
