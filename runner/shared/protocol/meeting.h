#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace runner {

/// How the ranks of a run find each other.
struct Meeting {
  /// For ranks started by one retort process: a file that nothing has used before. If empty, the
  /// ranks meet at `host`.
  std::filesystem::path file = {};
  std::string host = {};   ///< the host of rank 0, as the other ranks address it
  int port = 0;            ///< the port on that host
  bool is_served = false;  ///< true if the launcher serves a store there; otherwise rank 0 does
  std::string job = {};    ///< identifies this start of the job; ranks of other jobs are refused
  int ranks_here = 1;      ///< ranks on this machine, which share its memory and cores
  /// The number of cores that the launcher assigns to this rank alone; 0: a share of the machine's
  /// cores.
  int cores = 0;
  int seconds = 600;  ///< how long to wait for the other ranks
};

/// Converts to and from the format in protocol.md. meeting_from_json() throws std::runtime_error
/// for anything else.
nlohmann::ordered_json to_json(const Meeting& meeting);
Meeting meeting_from_json(const nlohmann::ordered_json& json);

}  // namespace runner
