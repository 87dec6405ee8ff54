#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/tracker/end_patience.h"
#include "runner/tracker/mlflow_run.h"

namespace runner {

/// The lines sent to the tracker.
class TrackerInput {
 public:
  virtual ~TrackerInput() = default;
  /// Waits up to `time` for the next line. Returns nullopt if none has arrived.
  virtual std::optional<std::string> next(std::chrono::milliseconds time) = 0;
  /// True once `retort` has closed the connection and every line has been returned.
  virtual bool is_over() const = 0;
};

/// Sends a run to an MLflow server, during the run or afterward. The protocol is one JSON object
/// per line. The first line of the input describes the run:
///
///   {"server", "experiment": {"name", "id"}, "run": RUN, "sweep": RUN or null, "tries",
///    "limit_seconds", "answer_milliseconds"}
///
/// RUN: {"metrics", "state", "name", "began", "params", "tags", "prefixes"} (TrackedRun). The
/// second line, {"end": {"status", "time"}}, comes when the run has ended. From then on, a request
/// may fail `tries` - 1 times, everything together may take `limit_seconds`, and each response
/// `answer_milliseconds` (EndPatience; limit_seconds 0: no limits).
///
/// Responds with {"failed": text} as soon as the server rejects something or has not responded for
/// half a minute. At the end, responds with {"failed": text} if the server does not get everything,
/// and otherwise with {"done": {"run_id", "experiment_id", "sent"}}. Secrets come from
/// MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD and never appear in
/// a line.
class Tracker {
 public:
  using Answer = std::function<void(const nlohmann::json& line)>;

  /// Both arguments are borrowed.
  Tracker(TrackerInput& input, Answer answer) : input_(input), answer_(std::move(answer)) {}

  /// Runs until the end. Returns true if the server has everything.
  bool operator()();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Outcome { kDone, kStopped, kFailed };

  Outcome follow(MlflowRun& run);
  Outcome finish(MlflowRun& run);
  bool send_all(MlflowRun& run);
  void listen(std::chrono::milliseconds time);
  bool is_out_of_time();
  std::string why_out_of_time() const;
  void fail(const std::string& why);

  TrackerInput& input_;
  const Answer answer_;
  std::optional<nlohmann::json> end_;  // how the run ended; nullopt: it is running
  EndPatience patience_;
  std::chrono::seconds limit_{0};
  int tries_ = 1;
  bool has_failed_ = false;  // a failure has occurred and been reported
};

}  // namespace runner
