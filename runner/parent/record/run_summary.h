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

/// The metric by which a training picks its best validation, from its options.
struct Monitor {
  std::string metric;  ///< as it is recorded: "validation/loss"
  bool is_smaller_better = false;
  double minimum_improvement = 0;  ///< a better value must improve by more than this
  bool keeps_best = true;  ///< the weights of the best validation are handed on, not the last ones
};

/// Reads the options of a training; nullopt if they name no metric.
std::optional<Monitor> monitor_of(const Value& options);

/// Follows the metrics of a training as its checkpoints do: finds the step at which its monitored
/// metric was best, and what it measured there.
class BestValidation {
 public:
  explicit BestValidation(Monitor monitor) : monitor_(std::move(monitor)) {}

  /// Adds a metric; call in the order in which they were measured.
  void see(const std::string& name, double value, std::int64_t step);

  const Monitor& monitor() const { return monitor_; }
  /// The step after which it was best; nullopt: nothing was validated.
  std::optional<std::int64_t> best_step() const { return best_step_; }
  /// What was measured there, by name.
  const std::map<std::string, double>& best_values() const { return best_; }
  /// The validation metrics of the weights that are handed on, by name: those of the best step, or
  /// of the last.
  const std::map<std::string, double>& kept() const { return monitor_.keeps_best ? best_ : last_; }
  /// The step at which they were measured; 0: none.
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

/// How long a run has been at work, all attempts together, as recorded in its files.
struct WorkedTime {
  double seconds = 0;                        ///< for a killed run, until its last measurement
  bool is_killed = false;                    ///< killed, or still at work
  std::map<std::string, double> nodes = {};  ///< by id, as in the summary
};
WorkedTime worked_time(const std::filesystem::path& folder);

/// The recoveries recorded in the summary.json at `path`; none if it cannot be read.
std::vector<Recovered> recorded_recoveries(const std::filesystem::path& path);

/// The content of summary.json: how a run went, collected from the events of its worker.
class RunSummary {
 public:
  /// `started`: date and time of day as they are shown.
  RunSummary(const Graph& graph, std::string started, bool smoke);

  /// Adds nodes, metrics and diagnostics. `seconds` must be set to the time of the event.
  void see(const Event& event);
  /// Adds the seconds that an earlier attempt at the run worked on `node`; this attempt adds to
  /// them.
  void add_earlier(const std::string& node, double seconds);
  /// Drops the metrics of `node`.
  void forget_metrics(const std::string& node);
  /// "recovered 3 times: 2 x out of memory, 1 x killed (recoveries in summary.json)"; empty if it
  /// never recovered.
  std::string recovered_text() const;
  void add(const Diagnostic& diagnostic) { diagnostics_.push_back(diagnostic); }

  RunStatus status = RunStatus::kRunning;
  std::optional<ExitCode> exit;
  std::optional<int> signal;  ///< the signal that killed the worker
  double seconds = 0;         ///< of work, all attempts together

  const Diagnostics& diagnostics() const { return diagnostics_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  nlohmann::ordered_json to_json() const;

 private:
  struct NodeState {
    std::string id;
    std::string status;  // "waiting", "running", "finished"
    double seconds = 0;  // of all finished attempts
    std::int64_t peak_memory_bytes = 0;
    std::string reused_from = {};      // the folder of a run
    std::optional<double> began = {};  // when its current work began, by RunSummary::seconds
  };
  struct Last {
    std::string node, name;
    double value;
    std::int64_t step;
  };
  /// A training that names the metric by which its weights are kept.
  struct Training {
    std::string node, kind;
    BestValidation best;
  };
  NodeState* node(const std::string& id);
  nlohmann::ordered_json kept_json() const;

  std::string recipe_, started_;
  bool smoke_;
  std::vector<NodeState> nodes_;
  std::vector<Last> metrics_;  // the last value of each, in the order in which they first appeared
  std::vector<Training> trainings_;
  std::vector<Recovered> recovered_;
  Diagnostics diagnostics_;
};

}  // namespace runner
