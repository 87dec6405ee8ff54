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

/// The metric by which a training stage selects its best validation, as set in its options.
struct Monitor {
  std::string metric;  ///< its recorded name: "validation/loss"
  bool is_smaller_better = false;
  bool keeps_best = true;  ///< outputs the weights of the best validation instead of the last ones
};

/// Reads the options of a training stage; nullopt if they do not specify a metric.
std::optional<Monitor> monitor_of(const Value& options);

/// Follows the metrics of a training stage. Finds the step at which the monitored metric was best,
/// by the same rule as the stage's checkpoints, and the metrics measured at that step.
class BestValidation {
 public:
  explicit BestValidation(Monitor monitor) : monitor_(std::move(monitor)) {}

  /// Adds a metric; must be called in the order of measurement.
  void see(const std::string& name, double value, std::int64_t step);

  const Monitor& monitor() const { return monitor_; }
  /// Returns the step at which the monitored metric was best; nullopt if nothing was validated.
  std::optional<std::int64_t> best_step() const { return best_step_; }
  /// Returns the metrics measured at best_step(), by name.
  const std::map<std::string, double>& best_values() const { return best_; }
  /// Returns the validation metrics of the weights that the stage outputs, by name: those of the
  /// best step, or of the last one.
  const std::map<std::string, double>& kept() const { return monitor_.keeps_best ? best_ : last_; }
  /// Returns the step at which kept() was measured, or 0 if there is none.
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

/// Returns "running", "finished", "failed", "interrupted" or "worker died".
std::string_view name(RunStatus status);

/// The total working time of a run over all attempts, as recorded in its files.
struct WorkedTime {
  double seconds = 0;      ///< for a killed run, the time until its last measurement
  bool is_killed = false;  ///< killed, or still running
  std::map<std::string, double> nodes = {};  ///< seconds by node id, as in the summary
};
WorkedTime worked_time(const std::filesystem::path& folder);

/// Returns when the run in `folder` was last started or resumed, in seconds since 1970; 0 if its
/// summary does not say.
double started_at(const std::filesystem::path& folder);

/// Returns the recoveries recorded in the summary.json at `path`; none if it cannot be read.
std::vector<Recovered> recorded_recoveries(const std::filesystem::path& path);

/// The end of an attempt of a run that was resumed later.
struct EarlierAttempt {
  std::string status;  ///< as in the summary; "interrupted" if it was killed
  Diagnostics errors;
};
/// Returns the attempts recorded in the summary.json at `path`, in order: the earlier ones, then
/// the one that wrote the file. Empty if it cannot be read.
std::vector<EarlierAttempt> recorded_attempts(const std::filesystem::path& path);

/// The contents of summary.json: how a run went, collected from its worker's events.
class RunSummary {
 public:
  /// `started` is the date and time of day, formatted for display.
  RunSummary(const Graph& graph, std::string started, bool smoke);

  /// Adds nodes, metrics and diagnostics. `seconds` must be set to the time of the event before the
  /// call.
  void see(const Event& event);
  /// Adds the seconds that earlier attempts spent on `node`; this attempt's time is added to them.
  void add_earlier(const std::string& node, double seconds);
  /// Drops the metrics of `node`.
  void forget_metrics(const std::string& node);
  /// Returns "recovered 3 times: 2 x out of memory, 1 x killed (recoveries in summary.json)"; empty
  /// if the run never recovered.
  std::string recovered_text() const;
  void add(const Diagnostic& diagnostic) { diagnostics_.push_back(diagnostic); }

  RunStatus status = RunStatus::kRunning;
  std::optional<ExitCode> exit;
  std::optional<int> signal;            ///< the signal that killed the worker
  double seconds = 0;                   ///< working time over all attempts
  std::vector<EarlierAttempt> earlier;  ///< the attempts before this one, in order

  const Diagnostics& diagnostics() const { return diagnostics_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  nlohmann::ordered_json to_json() const;

 private:
  struct NodeState {
    std::string id;
    std::string status;  // "waiting", "running", "finished"
    double seconds = 0;  // total over all finished attempts
    std::int64_t peak_memory_bytes = 0;
    std::string reused_from = {};      // the folder of a run
    std::optional<double> began = {};  // start of its current work, by RunSummary::seconds
  };
  struct Last {
    std::string node, name;
    double value;
    std::int64_t step;
  };
  /// A training node with options that specify the metric for selecting its weights.
  struct Training {
    std::string node, kind;
    BestValidation best;
  };
  NodeState* node(const std::string& id);
  nlohmann::ordered_json kept_json() const;

  std::string recipe_, started_;
  std::vector<std::string> remarks_;
  bool smoke_;
  std::vector<NodeState> nodes_;
  std::vector<Last> metrics_;  // last value of each metric, in order of first appearance
  std::vector<Training> trainings_;
  std::vector<Recovered> recovered_;
  Diagnostics diagnostics_;
};

}  // namespace runner
