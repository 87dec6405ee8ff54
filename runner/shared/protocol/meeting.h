#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace runner {

/// How the ranks of a run find each other.
struct Meeting {
  /// For ranks started by a single retort process: a file that has never been used before. If
  /// empty, the ranks meet at `host`.
  std::filesystem::path file = {};
  std::string host = {};   ///< rank 0's host, as addressed by the other ranks
  int port = 0;            ///< the port on that host
  bool is_served = false;  ///< true if the launcher hosts the store there; otherwise rank 0 does
  std::string job = {};    ///< identifies this launch of the job; ranks of other jobs are rejected
  int ranks_here = 1;      ///< number of ranks on this machine; they share its memory and cores
  /// The number of cores that the launcher assigns to this rank alone; 0: an equal share of the
  /// machine's cores.
  int cores = 0;
  int seconds = 600;  ///< how long to wait for the other ranks
};

/// Converts to and from the format in protocol.md. meeting_from_json() throws std::runtime_error
/// for anything else.
nlohmann::ordered_json to_json(const Meeting& meeting);
Meeting meeting_from_json(const nlohmann::ordered_json& json);

}  // namespace runner
