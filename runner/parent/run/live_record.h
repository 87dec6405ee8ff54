#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/config/secret.h"
#include "runner/parent/record/run_folder.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/record/tensorboard_log.h"
#include "runner/parent/record/watched_inputs.h"
#include "runner/parent/run/run.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/family.h"

namespace runner {

/// Thrown if the folder of a run cannot be created or locked; the run then does not start.
struct CannotOpenRecord {
  Diagnostics errors;
};

/// The record of a run in progress: writes its worker's events to the folder and the summary.
/// Functions that write throw WriteError.
class LiveRecord {
 public:
  /// All arguments are borrowed.
  LiveRecord(const RunRequest& request, const RunSurroundings& surroundings, RunSummary& summary);

  /// Creates the folder, or opens the folder of a resumed run, and records the request. `versions`
  /// are the worker's. Warnings about the environment (RunRequest::check_environment) go to
  /// `report`. After restart(), call open() again for the next worker. Throws CannotOpenRecord;
  /// after restart() also if inputs have changed, or if checkpoints of another training run were
  /// put into the folder.
  void open(const Ready& ready, const nlohmann::ordered_json& versions,
            const std::function<void(const Diagnostic&)>& report);
  bool is_open() const { return folder_.has_value(); }
  /// Returns the run's folder; empty if the run is new and not open yet.
  std::filesystem::path path() const;
  /// Returns path() as shown to the user.
  std::string folder() const { return shown_folder(path()); }

  /// Must be called before another worker continues from the last save. Metrics that the previous
  /// worker measured after that save are dropped, as in a resumed run.
  void restart() { is_restarted_ = is_ready_again_allowed_ = true; }
  /// Must be called before the next worker continues on another device. Records `device_choice`
  /// (OwnDevice::record) and the worker's environment `variables`.
  void move(nlohmann::ordered_json device_choice, std::vector<std::string> variables) {
    device_choice_ = std::move(device_choice);
    variables_ = std::move(variables);
  }

  /// Records an event; node metrics are written only once the folder is open.
  void see(const Event& event);
  /// Returns `text` with the recipe's secrets hidden; text from the worker may contain them.
  std::string without_secrets(std::string text) const {
    return secrets_.hidden_in(std::move(text));
  }
  Diagnostic without_secrets(Diagnostic diagnostic) const {
    return secrets_.hidden_in(std::move(diagnostic));
  }
  /// Adds a line to log.txt with secrets hidden; the line is kept in memory until the folder is
  /// open. An empty `node` refers to the run as a whole.
  void log(LogLevel level, const std::string& node, const std::string& text);
  /// Flushes all metrics so far to the disk.
  void sync_metrics();
  /// Checks at the end of a run whether its data has changed. Returns an error for each changed
  /// input, which is also recorded, and a warning for each input to which files were added.
  Diagnostics look_at_inputs_again();
  /// Records how the run ended.
  void close();

  /// Returns the seconds since the start; for a resumed run, the sum over all attempts.
  double seconds() const;

  /// Returns `folder`, relative to the working directory if it is below that directory.
  static std::string shown_folder(const std::filesystem::path& folder);

 private:
  /// A LogLine that owns its text.
  struct KeptLine {
    LogLevel level;
    std::string node, text;
    double seconds;
  };

  bool is_resumed() const { return !request_.resume.empty(); }
  double wall_seconds() const;  // since 1970
  void begin_tensorboard();
  void take_up_metrics(WorkedTime before);
  void check(const nlohmann::ordered_json& environment,
             const std::function<void(const Diagnostic&)>& report) const;
  void check_restart() const;
  std::vector<WatchedInputs::Change> changed_data() const;
  void copy_marks();
  void describe(const Ready& ready);
  void record_inputs();
  std::string recipe_text() const;
  nlohmann::ordered_json origins() const;
  nlohmann::ordered_json environment_of(const Ready& ready,
                                        const nlohmann::ordered_json& versions) const;
  std::filesystem::path folder_to_write() const;
  nlohmann::ordered_json graph_record(const Ready& ready) const;
  bool is_of(Family family, const std::string& node) const;
  void log_event(const Event& event);
  void see_metric(const NodeMetric& metric, double time);
  void write_histories();
  void take_up_history(const std::string& node, const std::vector<MetricLine>& kept);
  void take_back_metrics(const Event& event);

  const RunRequest& request_;
  const RunSurroundings& surroundings_;
  RunSummary& summary_;
  const SecretTexts secrets_;
  const std::chrono::steady_clock::time_point start_;
  std::vector<std::string> variables_;    // environment of the running worker
  nlohmann::ordered_json device_choice_;  // null: the device was not chosen
  WatchedInputs inputs_;
  nlohmann::ordered_json environment_;  // the contents of environment.json
  nlohmann::ordered_json accepted_;     // checkpoints that a resumed run accepts
                                        // (checkpoint_origin.h)
  std::optional<RunLock> lock_;
  std::optional<RunFolder> folder_;
  std::optional<TensorBoardLog> tensorboard_;  // nullopt: not requested
  bool is_restarted_ = false, is_ready_again_allowed_ = false;
  double seconds_before_ = 0;  // for a resumed run: the working time of earlier attempts
  std::map<std::string, TrainingHistory> histories_;  // by node
  std::set<std::string> unwritten_;                   // nodes with unwritten history
  std::optional<std::string> running_anew_;  // node of a resumed run with no new metrics yet
  std::vector<KeptLine> kept_lines_;         // log lines written before the log is open
  std::size_t kept_bytes_ = 0;
};

}  // namespace runner
