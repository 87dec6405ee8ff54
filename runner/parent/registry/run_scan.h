#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

namespace runner {

/// A run's folder as a scan found it.
struct FoundRun {
  std::string folder;         ///< below the root: "2026-01-31/12-00-00"; "." for the root itself
  std::int64_t stamp = 0;     ///< of its names and files; 0: its names changed so lately that they may do so unseen
  bool is_unchanged = false;  ///< its stamp is the one that was known
};

/// The runs in `root`: itself where it is one, or those up to three levels below it, sorted; where `root` cannot be
/// read, none. `known` has stamps of runs: such a one costs a few calls of the system. Links are not followed.
///
/// A file of a run that changes comes under its name by a rename, which changes the times of the run's folder; what
/// somebody edits in place changes its own.
std::vector<FoundRun> scan_runs(const std::filesystem::path& root,
                                const std::unordered_map<std::string, std::int64_t>& known);

}  // namespace runner
