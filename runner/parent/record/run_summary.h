#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/value/value.h"

namespace runner {

/// By which metric a training says which of its validations is the best, as its options have it.
struct Monitor {
  std::string metric;  ///< as it is recorded: "validation/loss"
  bool is_smaller_better = false;
  double minimum_improvement = 0;  ///< what a better one must be better by, and more
  bool keeps_best = true;  ///< the weights of the best validation are handed on, not the last ones
};

/// Of the options of a training; nullopt where they name no metric.
std::optional<Monitor> monitor_of(const Value& options);

/// Follows the metrics of a training as its checkpoints do: at which step its monitored metric was
/// best, and what it measured there.
class BestValidation {
 public:
  explicit BestValidation(Monitor monitor) : monitor_(std::move(monitor)) {}

  /// Takes note of a metric, in the order in which they were measured.
  void see(const std::string& name, double value, std::int64_t step);

  const Monitor& monitor() const { return monitor_; }
  /// The step after which it was best; nullopt: nothing was validated.
  std::optional<std::int64_t> best_step() const { return best_step_; }
  /// What was measured there, by name.
  const std::map<std::string, double>& best_values() const { return best_; }
  /// The validation metrics of the weights that are handed on, by name: those of the best step, or
  /// of the last.
  const std::map<std::string, double>& kept() const { return monitor_.keeps_best ? best_ : last_; }
  /// Where they were measured; 0: nowhere.
  std::int64_t kept_step() const {
    return monitor_.keeps_best ? best_step_.value_or(0) : last_step_;
  }

 private:
  Monitor monitor_;
  std::int64_t last_step_ = 0;
  std::optional<std::int64_t> best_step_;
  double best_value_ = 0;
  std::map<std::string, double> last_, best_;
};

enum class RunStatus { kRunning, kFinished, kFailed, kInterrupted, kWorkerDied };

/// "running", "finished", "failed", "interrupted", "worker died".
std::string_view name(RunStatus status);

/// How long a run has been at work, all attempts together, as far as its files tell.
struct WorkedTime {
  double seconds = 0;      ///< of one that was killed, until it last measured something
  bool is_killed = false;  ///< or at work
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
  /// "recovered 3 times: 2 x out of memory, 1 x killed (recoveries in summary.json)"; empty where
  /// it never had to.
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
