#pragma once

#include <functional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/run/supervise.h"

namespace runner {

/// What the ranks of a run do apart from the first, which is spoken with as a single worker is.
struct OtherRanks {
  int count = 1;  ///< of all ranks
  /// Makes `command` compute on the device of `rank`; empty: all ranks use the first one's.
  std::function<void(int rank, WorkerCommand& command)> hand_over = {};
  /// The message that sends a rank to work, once the first has been sent.
  std::function<nlohmann::ordered_json()> go;
  /// A line that a rank, 1 or higher, has said or printed.
  std::function<void(int rank, std::string_view line)> on_line;
};

/// supervise() for a graph with several ranks: starts a worker for each. Signals go to the
/// first alone, since it saves; when it ends, the others end. If another rank ends with an error or
/// is killed, that is how the conversation has ended: the first then only lost it.
Result<Ending> supervise_ranks(const WorkerCommand& command, const nlohmann::ordered_json& request,
                               Conversation first, const OtherRanks& others);

}  // namespace runner
