#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/run/mlflow_target.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Has retort-tracker send a run to an MLflow server. The program reads the run's files, so a slow
/// server never delays the run. If the server does not get everything, one kNotTracked warning is
/// reported.
class Tracking {
 public:
  using Warn = std::function<void(const Diagnostic& warning)>;

  explicit Tracking(Warn warn) : warn_(std::move(warn)) {}

  /// Starts the program unless it has already been started. `request` is its first line
  /// (mlflow_request()).
  void begin(const MlflowTarget& target, const nlohmann::ordered_json& request);
  /// Reads the program's responses without waiting. Returns the time until the next call; nullopt
  /// if there is no program.
  std::optional<std::chrono::milliseconds> tick();
  /// Sends the second line (mlflow_end()) and waits until everything has been sent, for at most
  /// `limit` (0: no limit), and no longer if the program says that it cannot send the rest. SIGINT,
  /// SIGTERM and SIGHUP end the wait. Returns the program's answer, "done"; nullopt if it has
  /// failed or was not started.
  std::optional<nlohmann::ordered_json> end(const nlohmann::ordered_json& line,
                                            std::chrono::seconds limit);

 private:
  void hear(const WorkerNews& news);
  void warn(const std::string& why);

  const Warn warn_;
  std::string server_, folder_;
  std::optional<WorkerProcess> process_;
  std::optional<nlohmann::ordered_json> done_;
  bool was_started_ = false, has_warned_ = false;
  bool has_failed_ = false;  // as reported by the program, which may still recover during the run
};

}  // namespace runner
