#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/line_tail.h"
#include "runner/tracker/mlflow_server.h"
#include "runner/tracker/mlflow_state.h"

namespace runner {

/// What `retort` reports to the server about a run or a sweep.
struct TrackedRun {
  std::filesystem::path metrics;  ///< the run's metrics.jsonl; empty for a sweep
  std::filesystem::path state;    ///< the file that records what servers have (mlflow_state.h)
  std::string name;
  std::int64_t began = 0;  ///< milliseconds since 1970; used if the server has no run yet
  std::map<std::string, std::string> params = {}, tags = {};
  std::map<std::string, std::string> prefixes = {};  ///< metric name prefixes, by node
};

/// The experiment that contains the run. If neither is given, "Default" is used, as in MLflow.
struct TrackedExperiment {
  std::string name = {}, id = {};
};

/// A run of Retort on an MLflow server. After a TrackingError, any function can be called again and
/// picks up where it left off, so nothing is sent twice. Functions also throw Canceled and
/// WriteError.
class MlflowRun {
 public:
  /// `server` is borrowed. `parent` is the sweep that the run is a trial of.
  MlflowRun(const MlflowServer& server, TrackedExperiment experiment, TrackedRun run,
            std::optional<TrackedRun> parent = {});

  /// Creates the run on the server, with its parameters and tags, or continues it if it already
  /// exists. The first trial of a sweep also creates the sweep's run.
  void begin();
  /// Sends metrics that the server does not have yet, in a single request at most. Returns false if
  /// there is currently nothing to send.
  bool send_next();
  /// Must be called when the file is complete and has been sent. If a run was resumed with other
  /// options, metrics with changed values are then sent again.
  void complete();
  /// Records how the run ended: "FINISHED", "FAILED" or "KILLED".
  void end(const std::string& status, std::int64_t time);

  /// Records in the state file what the server has.
  void save(Storage& storage = disk()) { write_mlflow_state(run_.state, state_, storage); }
  /// Return the number of metrics that the server has, and the number waiting to be sent.
  std::int64_t sent() const;
  std::size_t waiting() const { return waiting_.size(); }
  const MlflowState& state() const { return state_; }

 private:
  struct Waiting {
    MetricLine line;
    SentMetrics after;  // what the server has from its node once this line is sent
  };
  std::string experiment_id() const;
  void create();
  void find_or_create();
  bool continues();
  void describe();
  void tag_changes(const nlohmann::json& before);
  void log(const char* kind, std::size_t most, const nlohmann::json& entries) const;
  std::string sweep_run() const;
  void read();
  bool read_some();
  bool take(MetricLine line);
  void send_again(const std::string& node);

  const MlflowServer& server_;
  const TrackedExperiment experiment_;
  const TrackedRun run_;
  const std::optional<TrackedRun> parent_;
  MlflowState state_;
  bool was_recorded_, has_begun_ = false;
  LineTail tail_;
  std::map<std::string, SentMetrics> seen_;  // by node
  std::vector<Waiting> waiting_;             // in file order
};

}  // namespace runner
