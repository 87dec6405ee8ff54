#include "runner/parent/sweep/follow_tasks.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "runner/parent/sweep/run_task.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/task_account.h"
#include "runner/parent/sweep/trial_table.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kLargestArray = 1000;  // Slurm's MaxArraySize is 1001 by default
/// How many queries in a row must fail to find a task before it counts as gone. A new task takes a
/// while to appear in the queue, and the last line of its account may arrive late over a network.
constexpr int kMissesOfGone = 3;

bool is_end(const TaskEvent& event) {
  return event.state == TrialState::kFinished || event.state == TrialState::kFailed;
}

/// A trial and the last task to which it was assigned.
struct FollowedTrial {
  std::size_t submission = 0, index = 0;
  bool is_active = false;      ///< its task may still report something
  bool is_given_up = false;    ///< this process will not submit it again
  bool is_of_earlier = false;  ///< another process has submitted the task
  std::size_t lines = 0;       ///< number of lines from its account that are already in the journal
  int misses = 0, losses = 0, failures = 0;
};

class Following {
 public:
  Following(SweepJournal& journal, TaskQueue& queue, const FollowOptions& options,
            const TrialSurroundings& surroundings)
      : journal_(journal),
        queue_(queue),
        layout_(journal.folder()),
        launch_(journal.folder()),
        options_(options),
        surroundings_(surroundings),
        trials_(journal.trials().size()),
        table_(journal, surroundings.err, surroundings.display) {}

  ExitCode operator()(const std::function<std::optional<int>(std::chrono::milliseconds)>& wait) {
    if (const Diagnostics errors = take_up(); !errors.empty()) return stop_with(errors);
    while (true) {
      collect();
      if (const Diagnostics errors = hand_over(); !errors.empty()) return stop_with(errors);
      if (std::ranges::none_of(trials_, &FollowedTrial::is_active)) break;
      if (!options_.waits) return leave();
      if (const auto signal = pass_time(wait)) {
        report("the tasks continue without this process");
        journal_.flush();
        return exit_code_of_stop(*signal, /*has_saved=*/true);
      }
      if (const Diagnostics errors = look(); !errors.empty()) return stop_with(errors);
    }
    journal_.flush();
    const bool all = std::ranges::all_of(
        journal_.trials(), [](const Trial& trial) { return trial.state == TrialState::kFinished; });
    return all ? ExitCode::kDone : ExitCode::kSomeTrialsFailed;
  }

 private:
  /// Shows what tasks report until the next queue query is due. Returns the signal that ended the
  /// wait, if any.
  std::optional<int> pass_time(
      const std::function<std::optional<int>(std::chrono::milliseconds)>& wait) {
    auto left = options_.look;
    while (const auto drawn = table_.tick()) {
      if (*drawn >= left) break;
      if (const auto signal = wait(*drawn)) return signal;
      left -= *drawn;
      collect();
    }
    return wait(left);
  }

  /// Returns without waiting for the tasks.
  ExitCode leave() {
    journal_.flush();
    if (has_handed_over_) return ExitCode::kDone;
    const auto left = std::ranges::count_if(trials_, &FollowedTrial::is_active);
    report(std::to_string(left) + (left == 1 ? " trial has" : " trials have") + " not ended yet");
    return ExitCode::kStoppedAfterSave;
  }

  ExitCode stop_with(const Diagnostics& errors) {
    journal_.flush();
    for (const Diagnostic& error : errors) report(error);
    return exit_code(errors);
  }

  /// Loads the submissions of earlier processes.
  Diagnostics take_up() {
    auto read = read_submissions(journal_.folder());
    if (!read) return read.errors();
    submissions_ = *std::move(read);
    const auto written = SweepJournal::read(journal_.folder());  // unlike reopen(), does not mark
                                                                 // running trials as interrupted
    if (!written) return written.errors();
    for (std::size_t s = 0; s < submissions_.size(); ++s) {
      if (submissions_[s].is_refused) continue;
      for (std::size_t index = 0; index < submissions_[s].trials.size(); ++index) {
        const std::uint64_t number = submissions_[s].trials[index];
        if (number >= trials_.size()) continue;
        trials_[number] = {
            .submission = s, .index = index, .is_active = true, .is_of_earlier = true};
      }
    }
    for (std::uint64_t number = 0; number < trials_.size(); ++number) {
      FollowedTrial& trial = trials_[number];
      if (!trial.is_active) continue;
      const std::vector<TaskEvent> events = account_of(trial);
      trial.lines = known_lines(trial, written->trials[number], events);
      if (!events.empty() && is_end(events.back()) && trial.lines == events.size())
        trial.is_active = false;
    }
    done_ = static_cast<std::size_t>(std::ranges::count_if(
        journal_.trials(), [&](const Trial& trial) { return has_finished(trial); }));
    if (done_ > 0 || !submissions_.empty())
      say(std::to_string(done_) + " of " + std::to_string(trials_.size()) +
          " trials have finished");
    for (const Submission& one : submissions_)
      if (!one.is_refused && is_any_active(one)) say("continuing with " + text_of(one));
    return {};
  }

  bool is_any_active(const Submission& submission) const {
    return std::ranges::any_of(trials_, [&](const FollowedTrial& trial) {
      return trial.is_active && submissions_[trial.submission].number == submission.number;
    });
  }

  /// Returns "Slurm job 12".
  std::string text_of(const Submission& one) const {
    return queue_.name() + (one.job.empty() ? " job '" + one.name + "'" : " job " + one.job);
  }

  std::vector<TaskEvent> account_of(const FollowedTrial& trial) const {
    return TaskAccount::read(launch_.account(submissions_[trial.submission].number, trial.index));
  }

  /// Returns how many of `events` are already in the journal, based on the starts that it contains.
  std::size_t known_lines(const FollowedTrial& trial, const Trial& written,
                          const std::vector<TaskEvent>& events) const {
    int begun = written.attempts - submissions_[trial.submission].attempts_before[trial.index];
    if (begun <= 0)
      return written.state == TrialState::kFinished && !events.empty() && is_end(events.front())
                 ? 1
                 : 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].state != TrialState::kRunning || --begun > 0) continue;
      const bool has_end = i + 1 < events.size() && events[i + 1].state != TrialState::kRunning;
      return has_end && written.state != TrialState::kRunning ? i + 2 : i + 1;
    }
    return events.size();
  }

  bool has_finished(const Trial& trial) const {
    return trial.state == TrialState::kFinished &&
           run_status(layout_.run(trial.number)) == "finished";
  }

  /// Writes new events of the tasks into the journal.
  void collect() {
    for (std::uint64_t number = 0; number < trials_.size(); ++number) {
      FollowedTrial& trial = trials_[number];
      if (!trial.is_active) continue;
      const std::vector<TaskEvent> events = account_of(trial);
      for (; trial.lines < events.size(); ++trial.lines) see(number, events[trial.lines]);
    }
  }

  void see(std::uint64_t number, const TaskEvent& event) {
    FollowedTrial& trial = trials_[number];
    trial.misses = 0;
    const std::string who = "trial " + std::to_string(number);
    if (event.state == TrialState::kRunning) {
      const bool is_first = journal_.trials()[number].attempts == 0;
      journal_.started(number);
      return say(who + (is_first ? " started" : " resumed") +
                 own_settings(journal_.trials(), number) + ", " + event.place);
    }
    journal_.ended(number, event.state, event.exit, event.seconds, event.reason);
    if (event.state == TrialState::kFinished) {
      trial.is_active = false;
      ++done_;
      say(who + " finished in " + duration_text(event.seconds) + ": " + std::to_string(done_) +
          " of " + std::to_string(trials_.size()));
    } else if (event.state == TrialState::kFailed) {
      trial.is_active = false;
      fail(number, event);
    } else {
      say(who + " stopped" + (event.reason.empty() ? "" : ": " + event.reason));
    }
  }

  void fail(std::uint64_t number, const TaskEvent& event) {
    FollowedTrial& trial = trials_[number];
    const bool is_tried_again = !is_stopping_ && ++trial.failures <= options_.trials.retries;
    trial.is_given_up = !is_tried_again;
    report("trial " + std::to_string(number) + " failed" + own_settings(journal_.trials(), number) +
           ": " + event.reason + (is_tried_again ? "; it will be retried" : ""));
    for (const std::string& line : event.said)
      if (line != event.reason) report("    " + line);
    if (is_tried_again || !options_.trials.fail_fast || is_stopping_) return;
    is_stopping_ = true;
    for (const Diagnostic& error : queue_.cancel(submissions_)) report(error);
  }

  /// Submits, as new arrays, the unfinished trials that are not being run by any task.
  Diagnostics hand_over() {
    std::vector<std::uint64_t> waiting;
    for (const Trial& trial : journal_.trials()) {
      const FollowedTrial& followed = trials_[trial.number];
      if (!is_stopping_ && !followed.is_active && !followed.is_given_up && !has_finished(trial))
        waiting.push_back(trial.number);
    }
    for (std::size_t first = 0; first < waiting.size(); first += kLargestArray) {
      const auto begin = waiting.begin() + static_cast<std::ptrdiff_t>(first);
      const auto size = std::min(kLargestArray, waiting.size() - first);
      if (Diagnostics errors = submit({begin, begin + static_cast<std::ptrdiff_t>(size)});
          !errors.empty())
        return errors;
    }
    return {};
  }

  Diagnostics submit(std::vector<std::uint64_t> numbers) {
    const int number = static_cast<int>(submissions_.size()) + 1;
    Submission submission{
        .number = number,
        .name = options_.prefix + "-" + std::to_string(number),
        .trials = std::move(numbers),
        .attempts_before = {},
        .time_out_minutes = options_.trials.time_out ? options_.trials.time_out->count() : 0,
        .arguments = surroundings_.arguments,
        .run_arguments = surroundings_.run_arguments,
        .resume_arguments = surroundings_.resume_arguments};
    for (const std::uint64_t trial : submission.trials)
      submission.attempts_before.push_back(journal_.trials()[trial].attempts);
    write_submission(submission, journal_.folder());
    auto job = queue_.submit(submission);
    if (job) submission.job = *std::move(job);
    else submission.is_refused = job.errors().front().code == ErrorCode::kClusterRefused;
    if (job || submission.is_refused) write_submission(submission, journal_.folder());
    submissions_.push_back(submission);
    if (!job) return job.errors();
    for (std::size_t index = 0; index < submission.trials.size(); ++index) {
      FollowedTrial& trial = trials_[submission.trials[index]];
      trial = {.submission = submissions_.size() - 1,
               .index = index,
               .is_active = true,
               .losses = trial.losses,
               .failures = trial.failures};
    }
    const std::size_t count = submission.trials.size();
    has_handed_over_ = true;
    say(text_of(submission) + ": " + std::to_string(count) + (count == 1 ? " trial" : " trials"));
    return {};
  }

  /// Compares the scheduler's queue with the expected tasks.
  Diagnostics look() {
    std::vector<Submission> asked;
    for (const Submission& one : submissions_)
      if (is_any_active(one)) asked.push_back(one);
    const auto queued = queue_.look(asked);
    if (!queued) return endure(queued.errors());
    if (silent_since_) say(queue_.name() + " is responding again");
    silent_since_.reset();
    std::map<std::pair<std::string, std::size_t>, const QueuedTask*> known;
    for (const QueuedTask& task : *queued) known[{task.submission, task.index}] = &task;
    collect();  // collects events that a task wrote before it left the queue
    for (std::uint64_t number = 0; number < trials_.size(); ++number) {
      FollowedTrial& trial = trials_[number];
      if (!trial.is_active) continue;
      const auto found = known.find({submissions_[trial.submission].name, trial.index});
      const QueuedTask* const task = found == known.end() ? nullptr : found->second;
      if (task && !task->has_ended) trial.misses = 0;
      else if (++trial.misses >= kMissesOfGone) lose(number, task ? task->state : "");
    }
    return {};
  }

  Diagnostics endure(const Diagnostics& errors) {
    const auto now = std::chrono::steady_clock::now();
    if (!silent_since_) {
      silent_since_ = now;
      report(queue_.name() + " is not responding (" + errors.front().message +
             "); following the trials' own files");
    }
    return now - *silent_since_ >= options_.patience ? errors : Diagnostics();
  }

  /// Handles a task that has left the queue before its trial ended.
  void lose(std::uint64_t number, std::string state) {
    FollowedTrial& trial = trials_[number];
    const std::vector<TaskEvent> events = account_of(trial);
    const bool has_saved = !events.empty() && events.back().state == TrialState::kInterrupted;
    if (state.empty()) state = queue_.fate(submissions_[trial.submission], trial.index);
    const std::string why = "its task is gone" + (state.empty() ? "" : " (" + state + ")");
    trial.is_active = false;
    if (!has_saved) {
      const double seconds = journal_.seconds_of_open_attempt(journal_.trials()[number]);
      journal_.ended(number, TrialState::kInterrupted, 0, seconds, why);
      if (!trial.is_of_earlier) ++trial.losses;
    }
    const bool is_canceled = state.starts_with("CANCELLED") && !trial.is_of_earlier;
    trial.is_given_up = is_stopping_ || is_canceled || trial.losses > options_.resubmissions;
    trial.is_of_earlier = false;
    report("trial " + std::to_string(number) + ": " + why +
           (trial.is_given_up ? ""
                              : "; it will be resubmitted and continue from its last checkpoint"));
  }

  void say(const std::string& line) {
    if (surroundings_.verbosity != Verbosity::kQuiet) report(line);
  }
  void report(const std::string& line) { table_.say(line); }
  void report(const Diagnostic& error) {
    std::ostringstream text;
    print(text, error);
    std::string lines = text.str();
    if (lines.ends_with('\n')) lines.pop_back();
    table_.say(lines);
  }

  SweepJournal& journal_;
  TaskQueue& queue_;
  const SweepLayout layout_;
  const LaunchLayout launch_;
  const FollowOptions& options_;
  const TrialSurroundings& surroundings_;
  std::vector<Submission> submissions_;
  std::vector<FollowedTrial> trials_;  // indexed by trial number
  LiveTrials table_;
  std::size_t done_ = 0;
  bool is_stopping_ = false, has_handed_over_ = false;
  std::optional<std::chrono::steady_clock::time_point> silent_since_;
};

}  // namespace

ExitCode follow_tasks(SweepJournal& journal, TaskQueue& queue, const FollowOptions& options,
                      const std::function<std::optional<int>(std::chrono::milliseconds)>& wait,
                      const TrialSurroundings& surroundings) {
  return Following(journal, queue, options, surroundings)(wait);
}

}  // namespace runner
