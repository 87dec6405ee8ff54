#include "runner/sweep/run_trials.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>

#include "runner/error/stop.h"
#include "runner/run/worker_set.h"
#include "runner/sweep/sweep_layout.h"
#include "runner/sweep/trial_command.h"
#include "runner/sweep/trial_table.h"
#include "runner/text/duration.h"

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kShownLines = 12;

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
      : journal_(journal),
        layout_(journal.folder()),
        options_(options),
        surroundings_(surroundings),
        table_(journal, surroundings.talk, surroundings.display) {
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
    return trial.state == TrialState::kFinished && run_status(layout_.run(trial.number)) == "finished";
  }

  void start_next() {
    const std::uint64_t number = waiting_.front();
    waiting_.pop_front();
    const WorkerCommand command = trial_command(layout_, number, surroundings_.program, surroundings_.arguments);
    auto worker = workers_.start(command);
    if (!worker) {
      journal_.started(number);
      return fail(number, 0, static_cast<int>(ExitCode::kInternalError), worker.errors().front().message, {});
    }
    journal_.started(number);
    running_.emplace(*worker, RunningTrial{.number = number, .began = Clock::now()});
    say("trial " + std::to_string(number) + (is_resumed(command) ? " resumed" : " started") + settings_of(number));
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
    fail(trial.number, seconds, exit, failure_reason(said, exit), said);
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
      if (said[i] != reason) tell("    " + said[i]);
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

  std::optional<std::chrono::milliseconds> next_look() {
    const auto drawn = table_.tick();
    if (!options_.time_out) return drawn;
    return std::min(drawn.value_or(std::chrono::milliseconds(1000)), std::chrono::milliseconds(1000));
  }

  void stop_the_late() {
    if (!options_.time_out) return;
    for (auto& [worker, trial] : running_) {
      if (trial.is_out_of_time || Clock::now() - trial.began < *options_.time_out) continue;
      trial.is_out_of_time = true;
      worker->signal(SIGTERM);
    }
  }

  std::string settings_of(std::uint64_t number) const { return own_settings(journal_.trials(), number); }

  std::string progress() const {
    return ": " + std::to_string(done_) + " of " + std::to_string(journal_.trials().size());
  }

  void say(const std::string& line) {
    if (surroundings_.verbosity != Verbosity::kQuiet) tell(line);
  }
  void tell(const std::string& line) { table_.say(line); }

  SweepJournal& journal_;
  const SweepLayout layout_;
  const TrialOptions& options_;
  const TrialSurroundings& surroundings_;
  LiveTrials table_;
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
