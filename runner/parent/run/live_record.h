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

/// The folder of a run could not be made or locked: the run ends before it began.
struct CannotOpenRecord {
  Diagnostics errors;
};

/// The record of a run that is at work: what its worker tells goes into the folder, and into the
/// summary. Writing throws WriteError.
class LiveRecord {
 public:
  /// All are borrowed.
  LiveRecord(const RunRequest& request, const RunSurroundings& surroundings, RunSummary& summary);

  /// Makes the folder, or of a run that is resumed opens it again, and writes down what is asked.
  /// `versions` are the worker's. What speaks against the environment
  /// (RunRequest::check_environment) is handed to `report` where it is a warning. After restart()
  /// again, for the next worker. Throws CannotOpenRecord, then also where inputs have changed
  /// since, or another training's checkpoints were put into the folder.
  void open(const Ready& ready, const nlohmann::ordered_json& versions,
            const std::function<void(const Diagnostic&)>& report);
  bool is_open() const { return folder_.has_value(); }
  /// The run's folder; empty where it is a new one and not open yet.
  std::filesystem::path path() const;
  /// The same as it is shown.
  std::string folder() const { return shown_folder(path()); }

  /// Another worker goes on from what was saved: what the one before it measured later is dropped,
  /// as of a run that is resumed.
  void restart() { is_restarted_ = is_ready_again_allowed_ = true; }
  /// It does so on another device, as its OwnDevice::record says, and is given these variables.
  void move(nlohmann::ordered_json device_choice, std::vector<std::string> variables) {
    device_choice_ = std::move(device_choice);
    variables_ = std::move(variables);
  }

  /// Takes down what has happened; nothing that a node measures is written before the folder is
  /// open.
  void see(const Event& event);
  /// `text` without the recipe's secrets, which the worker knows.
  std::string without_secrets(std::string text) const {
    return secrets_.hidden_in(std::move(text));
  }
  Diagnostic without_secrets(Diagnostic diagnostic) const {
    return secrets_.hidden_in(std::move(diagnostic));
  }
  /// A line of log.txt, without secrets; kept until the folder is open. `node`: empty for the run
  /// as a whole.
  void log(LogLevel level, const std::string& node, const std::string& text);
  /// Has everything measured so far on the disk.
  void sync_metrics();
  /// What has become of the data since the run began, at its end: an error for each that has
  /// changed, which the record then says too, and a warning for one to which files were added.
  Diagnostics look_at_inputs_again();
  /// Writes how it ended.
  void close();

  /// Since the start; of a resumed run, all the times that it was at work together.
  double seconds() const;

  /// Relative to the working directory, when it lies below that.
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
  std::vector<std::string> variables_;    // of the worker that is at work
  nlohmann::ordered_json device_choice_;  // null: nobody chose its device
  WatchedInputs inputs_;
  nlohmann::ordered_json environment_;  // as recorded
  nlohmann::ordered_json accepted_;     // checkpoints that a resumed run has (checkpoint_origin.h)
  std::optional<RunLock> lock_;
  std::optional<RunFolder> folder_;
  bool is_restarted_ = false, is_ready_again_allowed_ = false;
  double seconds_before_ = 0;  // of a resumed run: what it was at work before
  std::map<std::string, TrainingHistory> histories_;  // by node
  std::set<std::string> unwritten_;          // nodes whose history has grown since it was written
  std::optional<std::string> running_anew_;  // a resumed run's node that has measured nothing yet
  std::vector<KeptLine> kept_lines_;         // of the log
  std::size_t kept_bytes_ = 0;
};

}  // namespace runner
