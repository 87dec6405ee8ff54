#include "runner/sweep/run_trials.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "runner/config/override_text.h"
#include "runner/error/stop.h"
#include "runner/record/recorded_run.h"
#include "runner/run/worker_set.h"
#include "runner/stage/run_layout.h"
#include "runner/sweep/sweep_layout.h"
#include "runner/text/duration.h"
#include "runner/text/join.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kKeptLines = 40;  // of what a trial has said, for when it fails
constexpr std::size_t kShownLines = 12;

/// "status" of a run's summary.json; empty where there is none.
std::string status_of(const fs::path& run) {
  std::ifstream file(RunLayout(run).summary());
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("status", "") : "";
}

/// The last lines of a text that comes in pieces.
class LastLines {
 public:
  void add(std::string_view text) {
    for (const char letter : text) {
      if (letter == '\n') end_line();
      else if (line_.size() < 1000) line_ += letter;
    }
  }
  std::deque<std::string> take() {
    if (!line_.empty()) end_line();
    return std::move(lines_);
  }

 private:
  void end_line() {
    lines_.push_back(std::exchange(line_, ""));
    if (lines_.size() > kKeptLines) lines_.pop_front();
  }
  std::string line_;
  std::deque<std::string> lines_;
};

/// A trial at work.
struct RunningTrial {
  std::uint64_t number;
  Clock::time_point began;
  LastLines said = {};
  bool is_out_of_time = false;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - began).count(); }
};

/// Everything while the trials run.
class TrialPool {
 public:
  TrialPool(SweepJournal& journal, const TrialOptions& options, const TrialSurroundings& surroundings)
      : journal_(journal), layout_(journal.folder()), options_(options), surroundings_(surroundings) {
    for (const Trial& trial : journal.trials())
      if (!has_finished(trial)) waiting_.push_back(trial.number);
    done_ = journal.trials().size() - waiting_.size();
    if (done_ > 0)
      say(std::to_string(done_) + " of " + std::to_string(journal.trials().size()) + " trials have finished");
  }

  ExitCode operator()() {
    while (true) {
      while (!is_stopping() && !waiting_.empty() && std::ssize(running_) < options_.slots) start_next();
      if (running_.empty() && (waiting_.empty() || is_stopping())) break;
      take(workers_.next(next_look()));
      stop_the_late();
    }
    journal_.sync();
    if (stopped_by_) return exit_code_of_stop(*stopped_by_, /*has_saved=*/true);
    const bool all =
        std::ranges::all_of(journal_.trials(), [](const Trial& trial) { return trial.state == TrialState::kFinished; });
    return all ? ExitCode::kDone : ExitCode::kSomeTrialsFailed;
  }

 private:
  bool is_stopping() const { return stopped_by_ || (options_.fail_fast && has_failed_); }

  /// A run folder that somebody has removed is to be had again.
  bool has_finished(const Trial& trial) const {
    return trial.state == TrialState::kFinished && status_of(layout_.run(trial.number)) == "finished";
  }

  void start_next() {
    const std::uint64_t number = waiting_.front();
    waiting_.pop_front();
    const fs::path run = layout_.run(number);
    WorkerCommand command{.program = surroundings_.program};
    if (read_run(run)) {
      command.arguments = {"resume", run.string(), "-q"};
    } else {
      set_aside(number, run);
      command.arguments = {"run", layout_.recipe(number).string(), "run.dir=" + element_text(Value{run.string(), {}}),
                           "-q"};
    }
    const bool is_resumed = command.arguments.front() == "resume";
    command.arguments.insert(command.arguments.end(), surroundings_.arguments.begin(), surroundings_.arguments.end());
    if (!is_resumed) {
      const auto& more = surroundings_.run_arguments;
      command.arguments.insert(command.arguments.end(), more.begin(), more.end());
    }
    auto worker = workers_.start(command);
    if (!worker) {
      journal_.started(number);
      return fail(number, 0, static_cast<int>(ExitCode::kInternalError), worker.errors().front().message, {});
    }
    journal_.started(number);
    running_.emplace(*worker, RunningTrial{.number = number, .began = Clock::now()});
    say("trial " + std::to_string(number) + (is_resumed ? " resumed" : " started") + settings_of(number));
  }

  /// What was begun there and cannot be continued.
  void set_aside(std::uint64_t number, const fs::path& run) const {
    std::error_code error;
    if (!fs::exists(run, error)) return;
    for (int attempt = 1;; ++attempt) {
      const fs::path aside = layout_.set_aside(number, attempt);
      if (fs::exists(aside, error)) continue;
      fs::rename(run, aside, error);
      return;  // where that fails, `retort run` says that the folder is taken
    }
  }

  void take(const WorkerSet::Occurrence& occurrence) {
    if (const auto* signal = std::get_if<SignalToUs>(&occurrence)) return heed(signal->number);
    const auto* news = std::get_if<NewsOf>(&occurrence);
    if (!news) return;
    const auto found = running_.find(news->worker);
    if (found == running_.end()) return;
    if (const auto* output = std::get_if<OutputText>(&news->news)) found->second.said.add(output->text);
    if (const auto* exit = std::get_if<WorkerExit>(&news->news)) {
      RunningTrial trial = std::move(found->second);
      running_.erase(found);
      workers_.remove(*news->worker);
      end(trial, exit->signal != 0 ? 128 + exit->signal : exit->exit);
    }
  }

  void end(RunningTrial& trial, int exit) {
    const double seconds = trial.seconds();
    if (exit == 0) {
      journal_.ended(trial.number, TrialState::kFinished, exit, seconds);
      ++done_;
      return say("trial " + std::to_string(trial.number) + " finished in " + duration_text(seconds) + progress());
    }
    if (trial.is_out_of_time) {
      return fail(trial.number, seconds, exit,
                  "its time of " + std::to_string(options_.time_out->count()) + " min was up", {});
    }
    if (says_stopped(static_cast<ExitCode>(exit))) {
      journal_.ended(trial.number, TrialState::kInterrupted, exit, seconds);
      return say("trial " + std::to_string(trial.number) + " stopped");
    }
    const std::deque<std::string> said = trial.said.take();
    std::string reason = "exit code " + std::to_string(exit);
    for (const std::string& line : said) {
      const std::size_t error = line.find("error[");
      if (error == line.npos) continue;
      reason = line.substr(error);
      break;
    }
    fail(trial.number, seconds, exit, reason, said);
  }

  void fail(std::uint64_t number, double seconds, int exit, const std::string& reason,
            const std::deque<std::string>& said) {
    journal_.ended(number, TrialState::kFailed, exit, seconds, reason);
    const int attempts = ++failures_[number];
    const bool is_tried_again = attempts <= options_.retries && !is_stopping();
    if (is_tried_again) waiting_.push_front(number);
    else has_failed_ = true;
    tell("trial " + std::to_string(number) + " failed" + settings_of(number) + ": " + reason +
         (is_tried_again ? "; it is tried again" : ""));
    const std::size_t first = said.size() > kShownLines ? said.size() - kShownLines : 0;
    for (std::size_t i = first; i < said.size(); ++i)
      if (said[i] != reason) surroundings_.talk << "    " << said[i] << '\n';
    surroundings_.talk.flush();
    if (options_.fail_fast && has_failed_) ask_to_stop(SIGTERM);
  }

  void heed(int number) {
    if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
      ask_to_stop(number);  // a second SIGINT ends them at once
      if (!stopped_by_) tell("stopping: trials at work save first");
      if (!stopped_by_) stopped_by_ = number;
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      for (const auto& [worker, trial] : running_) worker->signal(number);
    }
  }

  void ask_to_stop(int signal) {
    for (const auto& [worker, trial] : running_) worker->signal(signal);
  }

  std::optional<std::chrono::milliseconds> next_look() const {
    if (!options_.time_out) return std::nullopt;
    return std::chrono::milliseconds(1000);
  }

  void stop_the_late() {
    if (!options_.time_out) return;
    for (auto& [worker, trial] : running_) {
      if (trial.is_out_of_time || Clock::now() - trial.began < *options_.time_out) continue;
      trial.is_out_of_time = true;
      worker->signal(SIGTERM);
    }
  }

  std::string settings_of(std::uint64_t number) const {
    std::vector<std::string> own;  // what others set too says nothing
    for (const std::string& setting : journal_.trials()[number].settings)
      if (!is_of_all(setting)) own.push_back(setting);
    return own.empty() ? "" : " (" + join(own, " ") + ")";
  }

  bool is_of_all(const std::string& setting) const {
    return std::ranges::all_of(journal_.trials(), [&](const Trial& trial) {
      return std::ranges::find(trial.settings, setting) != trial.settings.end();
    });
  }

  std::string progress() const {
    return ": " + std::to_string(done_) + " of " + std::to_string(journal_.trials().size());
  }

  void say(const std::string& line) {
    if (surroundings_.verbosity != Verbosity::kQuiet) tell(line);
  }
  void tell(const std::string& line) { surroundings_.talk << line << std::endl; }

  SweepJournal& journal_;
  const SweepLayout layout_;
  const TrialOptions& options_;
  const TrialSurroundings& surroundings_;
  WorkerSet workers_;
  std::map<WorkerProcess*, RunningTrial> running_;
  std::deque<std::uint64_t> waiting_;
  std::map<std::uint64_t, int> failures_;
  std::size_t done_ = 0;
  bool has_failed_ = false;
  std::optional<int> stopped_by_;
};

}  // namespace

ExitCode run_trials(SweepJournal& journal, const TrialOptions& options, const TrialSurroundings& surroundings) {
  return TrialPool(journal, options, surroundings)();
}

}  // namespace runner
