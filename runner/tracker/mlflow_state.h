#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runner/shared/disk/storage.h"
#include "runner/shared/record/metrics_file.h"

namespace runner {

/// A node's metrics that a server already has: the first `count` in metrics.jsonl. A resumed run
/// records some of them again, at other times but with the same values, which `digest` confirms.
struct SentMetrics {
  std::int64_t count = 0;
  std::uint64_t digest = kNoMetrics;

  /// Adds the next metric of the node.
  void add(const MetricLine& line);
  friend bool operator==(const SentMetrics&, const SentMetrics&) = default;

 private:
  static constexpr std::uint64_t kNoMetrics = 0xcbf29ce484222325;  // FNV-1a's offset basis
};

/// What an MLflow server has received about a run or a sweep.
struct MlflowState {
  std::string server;      ///< its address
  std::string key;         ///< identifies the run on the server before its id is known
  std::int64_t began = 0;  ///< milliseconds since 1970
  std::string experiment = {}, run = {};         ///< ids on the server; empty: not known yet
  bool is_described = false;                     ///< the parameters and tags have been sent
  std::map<std::string, SentMetrics> sent = {};  ///< by node
};

/// Reads from the file at `path` what `server` has; nullopt if it has nothing.
std::optional<MlflowState> read_mlflow_state(const std::filesystem::path& path,
                                             const std::string& server);

/// Records `state` in the file, alongside the states of other servers. Throws WriteError.
void write_mlflow_state(const std::filesystem::path& path, const MlflowState& state,
                        Storage& storage = disk());

}  // namespace runner
