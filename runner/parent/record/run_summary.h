#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/event.h"
#include "runner/parent/record/best_validation.h"

namespace runner {

enum class RunStatus { kRunning, kFinished, kFailed, kInterrupted, kWorkerDied };

/// "running", "finished", "failed", "interrupted", "worker died".
std::string_view name(RunStatus status);

/// How long a run has been at work, all attempts together, as far as its files tell.
struct WorkedTime {
  double seconds = 0;                        ///< of one that was killed, until it last measured something
  bool is_killed = false;                    ///< or at work
  std::map<std::string, double> nodes = {};  ///< by id, as the summary has them
};
WorkedTime worked_time(const std::filesystem::path& folder);

/// The recoveries that the summary.json at `path` tells of; none where it cannot be read.
std::vector<Recovered> recorded_recoveries(const std::filesystem::path& path);

/// What summary.json says: how a run went, put together from the events of its worker.
class RunSummary {
 public:
  /// `started`: date and time of day as they are to be shown.
  RunSummary(const Graph& graph, std::string started, bool smoke);

  /// Takes note of nodes, metrics and diagnostics. `seconds` is to be what it is at that moment.
  void see(const Event& event);
  /// An earlier attempt at the run has been at work on `node`; what is added here comes on top.
  void add_earlier(const std::string& node, double seconds);
  /// Forgets what was measured by `node`.
  void forget_metrics(const std::string& node);
  /// "recovered 3 times: 2 x out of memory, 1 x killed (recoveries in summary.json)"; empty where it never had to.
  std::string recovered_text() const;
  void add(const Diagnostic& diagnostic) { diagnostics_.push_back(diagnostic); }

  RunStatus status = RunStatus::kRunning;
  std::optional<ExitCode> exit;
  std::optional<int> signal;  ///< that killed the worker
  double seconds = 0;         ///< of work, all attempts together

  const Diagnostics& diagnostics() const { return diagnostics_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  nlohmann::ordered_json to_json() const;

 private:
  struct NodeState {
    std::string id;
    std::string status;  // "waiting", "running", "finished"
    double seconds = 0;  // of all attempts that have ended
    std::int64_t peak_memory_bytes = 0;
    std::string reused_from = {};      // a run's folder
    std::optional<double> began = {};  // at work here since, by RunSummary::seconds
  };
  struct Last {
    std::string node, name;
    double value;
    std::int64_t step;
  };
  /// A training that says by which metric its weights are kept.
  struct Training {
    std::string node, kind;
    BestValidation best;
  };
  NodeState* node(const std::string& id);
  nlohmann::ordered_json kept_json() const;

  std::string recipe_, started_;
  bool smoke_;
  std::vector<NodeState> nodes_;
  std::vector<Last> metrics_;  // the last value of each, in the order in which they first came
  std::vector<Training> trainings_;
  std::vector<Recovered> recovered_;
  Diagnostics diagnostics_;
};

}  // namespace runner
