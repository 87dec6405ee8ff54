#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/protocol/event.h"
#include "runner/graph/graph.h"

namespace runner {

enum class RunStatus { kRunning, kFinished, kFailed, kInterrupted, kWorkerDied };

/// "running", "finished", "failed", "interrupted", "worker died".
std::string_view name(RunStatus status);

/// The recoveries that the summary.json at `path` tells of; none where it cannot be read.
std::vector<Recovered> recorded_recoveries(const std::filesystem::path& path);

/// What summary.json says: how a run went, put together from the events of its worker.
class RunSummary {
 public:
  /// `started`: date and time of day as they are to be shown.
  RunSummary(const Graph& graph, std::string started, bool smoke);

  /// Takes note of nodes, metrics and diagnostics.
  void see(const Event& event);
  /// Forgets what was measured by `node`.
  void forget_metrics(const std::string& node) {
    std::erase_if(metrics_, [&](const Last& last) { return last.node == node; });
  }
  /// "recovered 3 times: 2 x out of memory, 1 x killed (recoveries in summary.json)"; empty where it never had to.
  std::string recovered_text() const;
  void add(const Diagnostic& diagnostic) { diagnostics_.push_back(diagnostic); }

  RunStatus status = RunStatus::kRunning;
  std::optional<ExitCode> exit;
  std::optional<int> signal;  ///< that killed the worker
  double seconds = 0;

  const Diagnostics& diagnostics() const { return diagnostics_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  nlohmann::ordered_json to_json() const;

 private:
  struct NodeState {
    std::string id;
    std::string status;  // "waiting", "running", "finished"
    double seconds = 0;
    std::int64_t peak_memory_bytes = 0;
    std::string reused_from = {};  // a run's folder
  };
  struct Last {
    std::string node, name;
    double value;
    std::int64_t step;
  };
  NodeState* node(const std::string& id);

  std::string recipe_, started_;
  bool smoke_;
  std::vector<NodeState> nodes_;
  std::vector<Last> metrics_;  // the last value of each, in the order in which they first came
  std::vector<Recovered> recovered_;
  Diagnostics diagnostics_;
};

}  // namespace runner
