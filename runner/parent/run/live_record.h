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
#include "runner/parent/record/watched_inputs.h"
#include "runner/parent/run/run.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/family.h"

namespace runner {

/// The folder of a run could not be created or locked: the run ends before it began.
struct CannotOpenRecord {
  Diagnostics errors;
};

/// The record of a run in progress: writes what its worker reports into the folder and into the
/// summary. Writing throws WriteError.
class LiveRecord {
 public:
  /// Everything is borrowed.
  LiveRecord(const RunRequest& request, const RunSurroundings& surroundings, RunSummary& summary);

  /// Creates the folder, or opens that of a resumed run, and records the request. `versions` are
  /// the worker's. Warnings about the environment (RunRequest::check_environment) go to `report`.
  /// After restart(), call it again for the next worker. Throws CannotOpenRecord; after restart()
  /// also if inputs have changed since, or if another training's checkpoints were put into the
  /// folder.
  void open(const Ready& ready, const nlohmann::ordered_json& versions,
            const std::function<void(const Diagnostic&)>& report);
  bool is_open() const { return folder_.has_value(); }
  /// The run's folder; empty if the run is new and not open yet.
  std::filesystem::path path() const;
  /// The same path as it is shown.
  std::string folder() const { return shown_folder(path()); }

  /// Another worker continues from what was saved. What the previous worker measured after that is
  /// dropped, as for a resumed run.
  void restart() { is_restarted_ = is_ready_again_allowed_ = true; }
  /// The next worker continues on another device, recorded as its OwnDevice::record, with these
  /// environment variables.
  void move(nlohmann::ordered_json device_choice, std::vector<std::string> variables) {
    device_choice_ = std::move(device_choice);
    variables_ = std::move(variables);
  }

  /// Records an event; metrics of nodes are written only once the folder is open.
  void see(const Event& event);
  /// `text` without the recipe's secrets, which the worker knows.
  std::string without_secrets(std::string text) const {
    return secrets_.hidden_in(std::move(text));
  }
  Diagnostic without_secrets(Diagnostic diagnostic) const {
    return secrets_.hidden_in(std::move(diagnostic));
  }
  /// Adds a line to log.txt, without secrets; kept in memory until the folder is open. `node`:
  /// empty for the run as a whole.
  void log(LogLevel level, const std::string& node, const std::string& text);
  /// Flushes all metrics so far to the disk.
  void sync_metrics();
  /// How the data have changed since the run began, checked at its end: an error for each changed
  /// input, which the record then also says, and a warning for each to which files were added.
  Diagnostics look_at_inputs_again();
  /// Records how the run ended.
  void close();

  /// Since the start; for a resumed run, the sum of all its working times.
  double seconds() const;

  /// Relative to the working directory, if it lies below that.
  static std::string shown_folder(const std::filesystem::path& folder);

 private:
  /// A LogLine that owns its text.
  struct KeptLine {
    LogLevel level;
    std::string node, text;
    double seconds;
  };

  bool is_resumed() const { return !request_.resume.empty(); }
  void take_up_metrics(WorkedTime before);
  void check(const nlohmann::ordered_json& environment,
             const std::function<void(const Diagnostic&)>& report) const;
  void check_restart() const;
  std::vector<WatchedInputs::Change> changed_data() const;
  void copy_marks();
  void describe(const Ready& ready);
  void record_inputs();
  std::string recipe_text() const;
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
  std::vector<std::string> variables_;    // of the running worker
  nlohmann::ordered_json device_choice_;  // null: its device was not chosen
  WatchedInputs inputs_;
  nlohmann::ordered_json environment_;  // as recorded
  nlohmann::ordered_json accepted_;     // checkpoints that a resumed run accepts
                                        // (checkpoint_origin.h)
  std::optional<RunLock> lock_;
  std::optional<RunFolder> folder_;
  bool is_restarted_ = false, is_ready_again_allowed_ = false;
  double seconds_before_ = 0;                         // for a resumed run: its earlier working time
  std::map<std::string, TrainingHistory> histories_;  // by node
  std::set<std::string> unwritten_;                   // nodes with unwritten history
  std::optional<std::string> running_anew_;  // a resumed run's node that has measured nothing yet
  std::vector<KeptLine> kept_lines_;         // of the log
  std::size_t kept_bytes_ = 0;
};

}  // namespace runner
