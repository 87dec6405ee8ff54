#include "runner/parent/sweep/trial_table.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <nlohmann/json.hpp>

#include "runner/parent/report/table_text.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

constexpr double kSilence = 120;
constexpr std::chrono::seconds kRedraw(1);
constexpr std::size_t kDrawnTrials = 16;  // limit below the messages, even on a tall terminal

std::string silence_text(const RunProgress& run) {
  return run.silent_seconds >= kSilence ? ", silent for " + duration_text(run.silent_seconds) : "";
}

std::string epoch_text(const RunProgress& run) {
  if (run.epoch == 0) return "";
  return std::to_string(run.epoch) + (run.epochs > 0 ? "/" + std::to_string(run.epochs) : "");
}

std::string metric_of(const RunProgress& run) {
  return run.metric.empty() ? "" : printable(run.metric) + " " + decimal(run.value, 4);
}

std::string memory_text(const RunProgress& run) {
  return run.memory_bytes > 0 ? bytes_text(run.memory_bytes) : "";
}

std::string time_left(const RunProgress& run) {
  return run.seconds_left ? duration_text(*run.seconds_left) : "";
}

/// True if the trial has ended according to the journal; its run may have newer information.
bool is_ended(const Trial& trial) {
  return trial.state == TrialState::kFinished || trial.state == TrialState::kFailed ||
         trial.state == TrialState::kStopped;
}

/// Returns the sort order: running, failed, interrupted, waiting, finished.
int urgency(const TrialProgress& one) {
  if (one.is_over()) return one.trial.state == TrialState::kFailed ? 1 : 4;
  if (one.is_at_work()) return 0;
  return one.is_interrupted() ? 2 : 3;
}

std::string counts_text(const std::vector<TrialProgress>& trials) {
  constexpr std::array<std::string_view, 5> kWords = {"running", "failed", "interrupted", "waiting",
                                                      "finished"};
  std::array<std::size_t, kWords.size()> counts{};
  for (const TrialProgress& one : trials) ++counts[static_cast<std::size_t>(urgency(one))];
  std::string text = std::to_string(trials.size()) + (trials.size() == 1 ? " trial" : " trials");
  const char* gap = ": ";
  for (std::size_t i = 0; i < kWords.size(); ++i)
    if (counts[i] > 0)
      text += std::exchange(gap, ", ") + std::to_string(counts[i]) + " " + std::string(kWords[i]);
  return text + "\n";
}

/// Returns the indices of the trials to show, in ascending order, if `most` of them fit.
std::vector<std::size_t> shown_trials(const std::vector<TrialProgress>& trials, std::size_t most) {
  std::vector<std::size_t> shown(trials.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (shown.size() <= most) return shown;
  std::ranges::stable_sort(shown, {}, [&](std::size_t at) { return urgency(trials[at]); });
  shown.resize(most);
  std::ranges::sort(shown);
  return shown;
}

std::string words_of(const RunProgress& run) {
  std::string line;
  const auto add = [&](const std::string& name, const std::string& text) {
    if (!text.empty()) line += "  " + name + text;
  };
  add("", run.node == "" ? "" : printable(run.node));
  add("epoch ", epoch_text(run));
  add("", metric_of(run));
  add("", memory_text(run));
  add("ETA ", time_left(run));
  return line;
}

}  // namespace

std::string TrialProgress::state() const {
  if (is_over()) return is_ended(trial) ? std::string(name(trial.state)) : "finished";
  if (is_at_work()) return "running" + silence_text(run);
  return is_interrupted() ? "interrupted" : std::string(name(trial.state));
}

bool TrialProgress::is_at_work() const {
  return !is_interrupted() && (trial.state == TrialState::kRunning || run.status == "running");
}

bool TrialProgress::is_interrupted() const {
  return trial.state == TrialState::kInterrupted ||
         (trial.state == TrialState::kRunning && run.status == "interrupted");
}

bool TrialProgress::is_over() const { return is_ended(trial) || run.status == "finished"; }

std::vector<TrialProgress> trials_progress(const std::filesystem::path& folder,
                                           const std::vector<Trial>& trials,
                                           std::optional<std::size_t> most) {
  const SweepLayout layout(folder);
  std::vector<TrialProgress> all;
  for (const Trial& trial : trials) {
    all.push_back({.trial = trial, .run = {}});
    if (!most || trial.state == TrialState::kRunning)
      all.back().run = run_progress(layout.run(trial.number));
  }
  if (!most) return all;
  for (const std::size_t at : shown_trials(all, *most))
    if (all[at].trial.state != TrialState::kRunning)
      all[at].run = run_progress(layout.run(all[at].trial.number));
  return all;
}

std::size_t trials_on_terminal(std::size_t rows) { return rows < 4 ? 0 : rows - 3; }

std::string trials_text(const std::vector<TrialProgress>& trials, std::size_t most,
                        std::size_t width) {
  if (most == 0) return counts_text(trials);
  std::vector<Trial> plain;
  for (const TrialProgress& one : trials) plain.push_back(one.trial);
  std::vector<std::vector<std::string>> rows = {
      {"trial", "state", "metric", "epoch", "ETA", "memory", "settings"}};
  for (const std::size_t at : shown_trials(trials, most)) {
    const TrialProgress& one = trials[at];
    std::string settings = own_settings(plain, one.trial.number);
    if (!settings.empty())
      settings = printable(settings.substr(2, settings.size() - 3));  // " (seed=1)"
    rows.push_back({std::to_string(one.trial.number), one.state(), metric_of(one.run),
                    epoch_text(one.run), time_left(one.run), memory_text(one.run),
                    settings});  // the longest column comes last because it may be cut
    for (std::string& cell : rows.back())
      if (cell.empty()) cell = "–";
  }
  return table_text(rows, width) + counts_text(trials);
}

std::string trial_line(const TrialProgress& trial) {
  return "trial " + std::to_string(trial.trial.number) + "  " + trial.state() + words_of(trial.run);
}

std::string run_line(const RunProgress& run) {
  return (run.status.empty() ? "not started" : printable(run.status)) + silence_text(run) +
         words_of(run);
}

void LiveTrials::say(const std::string& line) {
  text_.clear();
  drawn_.reset();
  err_ << line << std::endl;
}

std::optional<std::chrono::milliseconds> LiveTrials::tick() {
  if (!display_.is_terminal || display_.verbosity == Verbosity::kQuiet) return std::nullopt;
  const auto now = display_.clock();
  if (!drawn_ || now - *drawn_ >= kRedraw) {
    const TerminalSize size = display_.size();
    const std::size_t most = std::min(kDrawnTrials, trials_on_terminal(size.rows));
    text_.draw(trials_text(trials_progress(journal_.folder(), journal_.trials(), most), most),
               size.columns);
    drawn_ = now;
  }
  return std::chrono::ceil<std::chrono::milliseconds>(*drawn_ + kRedraw - now);
}

nlohmann::ordered_json to_json(const RunProgress& run) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const auto& value) { return value == 0 ? Json(nullptr) : Json(value); };
  const auto text = [](const std::string& value) {
    return value.empty() ? Json(nullptr) : Json(value);
  };
  return {{"status", text(run.status)},
          {"node", text(run.node)},
          {"epoch", or_null(run.epoch)},
          {"epochs", or_null(run.epochs)},
          {"step", or_null(run.step)},
          {"metric", text(run.metric)},
          {"value", run.metric.empty() ? Json(nullptr) : number_json(run.value)},
          {"memory_bytes", or_null(run.memory_bytes)},
          {"seconds_left", run.seconds_left ? Json(*run.seconds_left) : Json(nullptr)},
          {"silent_seconds", run.status == "running" ? Json(run.silent_seconds) : Json(nullptr)}};
}

nlohmann::ordered_json to_json(const TrialProgress& trial) {
  nlohmann::ordered_json json = {{"number", trial.trial.number},
                                 {"state", name(trial.trial.state)}};
  json["run"] = to_json(trial.run);
  return json;
}

}  // namespace runner
