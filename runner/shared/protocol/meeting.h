#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace runner {

/// Where the ranks of a run find each other.
struct Meeting {
  /// Of ranks that one retort has started: a file that nothing has used before. Empty: at `host`.
  std::filesystem::path file = {};
  std::string host = {};   ///< where rank 0 runs, as the others call it
  int port = 0;            ///< on which it is met there
  bool is_served = false;  ///< the launcher serves a store at that address; else rank 0 does
  std::string job = {};    ///< names this start of the job: ranks of another one are refused
  int ranks_here = 1;      ///< those on this machine, which share its memory and cores
  /// The cores of this rank alone, as the launcher says; 0: it has its part of the machine's.
  int cores = 0;
  int seconds = 600;  ///< how long it waits for the others
};

/// The format of protocol.md. meeting_from_json throws std::runtime_error on anything else.
nlohmann::ordered_json to_json(const Meeting& meeting);
Meeting meeting_from_json(const nlohmann::ordered_json& json);

}  // namespace runner
