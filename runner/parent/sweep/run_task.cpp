#include "runner/parent/sweep/run_task.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runner/parent/config/override.h"
#include "runner/parent/run/worker_process.h"
#include "runner/parent/sweep/submission.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/task_account.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr int kAttemptsOfTask = 3;
constexpr std::size_t kReportedLines = 12;  // lines of a failed trial's output to report

/// One trial running in a task.
class TaskAtWork {
 public:
  TaskAtWork(const SweepLayout& sweep, const Submission& submission, std::uint64_t trial,
             const TaskPlace& place, TaskAccount& account)
      : sweep_(sweep), submission_(submission), trial_(trial), place_(place), account_(account) {}

  ExitCode operator()() {
    for (int attempt = 1;; ++attempt) {
      account_.add({.state = TrialState::kRunning, .place = place_.name});
      const auto began = std::chrono::steady_clock::now();
      said_ = {};
      const WorkerExit exit = attempt_it(began);
      const bool goes_on =
          exit.signal == SIGKILL && !stopped_by_ && !is_out_of_time_ && attempt < kAttemptsOfTask;
      TaskEvent event = how_it_ended(exit);
      if (goes_on)
        event = {
            .state = TrialState::kInterrupted, .exit = event.exit, .reason = "its run was killed"};
      event.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      account_.add(event);
      if (!goes_on) return exit_code(event);
    }
  }

 private:
  /// Runs one attempt to completion, passing signals on.
  WorkerExit attempt_it(std::chrono::steady_clock::time_point began) {
    std::vector<std::string> arguments = submission_.arguments;
    // The cluster itself kills tasks that do not stop in time.
    if (!std::ranges::count(arguments, "--grace"))
      arguments.insert(arguments.end(), {"--grace", "0"});
    auto started = workers_.start(
        by_launcher(trial_command(sweep_, trial_, place_.program, arguments,
                                  submission_.run_arguments, submission_.resume_arguments)));
    if (!started) {
      said_.add(started.errors().front().message + "\n");
      return {.exit = static_cast<int>(ExitCode::kInternalError), .signal = 0};
    }
    const auto limit = std::chrono::minutes(submission_.time_out_minutes);
    while (true) {
      const auto occurred = limit.count() > 0 ? workers_.next(std::chrono::milliseconds(1000))
                                              : workers_.next(std::nullopt);
      if (const auto* signal = std::get_if<SignalToUs>(&occurred))
        handle_signal(signal->number, **started);
      if (limit.count() > 0 && !is_out_of_time_ &&
          std::chrono::steady_clock::now() - began >= limit) {
        is_out_of_time_ = true;
        (*started)->signal(SIGTERM);
      }
      const auto* news = std::get_if<NewsOf>(&occurred);
      if (!news) continue;
      if (const auto* output = std::get_if<OutputText>(&news->news)) {
        said_.add(output->text);
        [[maybe_unused]] const auto written =
            ::write(STDERR_FILENO, output->text.data(), output->text.size());
      }
      if (const auto* exit = std::get_if<WorkerExit>(&news->news)) {
        const WorkerExit ended = *exit;
        workers_.remove(**started);
        return ended;
      }
    }
  }

  /// Returns the command that starts `command` once for each rank.
  WorkerCommand by_launcher(WorkerCommand command) const {
    if (place_.ranks.empty()) return command;
    std::istringstream words(place_.ranks);
    std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    all.push_back(command.program.string());
    all.insert(all.end(), command.arguments.begin(), command.arguments.end());
    command.program = "/usr/bin/env";  // env finds the program on PATH
    command.arguments = std::move(all);
    return command;
  }

  void handle_signal(int number, WorkerProcess& trial) {
    if (number == SIGUSR1) {
      is_to_be_queued_ = true;
      if (!stopped_by_) trial.signal(SIGTERM);
    } else if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
      if (!stopped_by_ && !is_to_be_queued_)
        trial.signal(SIGTERM);  // a second SIGTERM would end the trial without a save
    } else {
      return;
    }
    stopped_by_ = number;
  }

  TaskEvent how_it_ended(const WorkerExit& exit) {
    TaskEvent event{.exit = exit.signal != 0 ? 128 + exit.signal : exit.exit};
    const std::deque<std::string> said = said_.take();
    if (event.exit == 0) {
      event.state = TrialState::kFinished;
    } else if (is_out_of_time_) {
      event.state = TrialState::kFailed;
      event.reason =
          "its time limit of " + std::to_string(submission_.time_out_minutes) + " min was reached";
    } else if (says_stopped(static_cast<ExitCode>(event.exit)) || stopped_by_) {
      event.state = TrialState::kInterrupted;
    } else {
      event.state = TrialState::kFailed;
      event.reason = failure_reason(said, event.exit);
      event.said.assign(
          said.end() - std::min(std::ssize(said), static_cast<std::ptrdiff_t>(kReportedLines)),
          said.end());
    }
    return event;
  }

  ExitCode exit_code(const TaskEvent& event) const {
    if (event.state == TrialState::kInterrupted && is_to_be_queued_ && !place_.requeue.empty()) {
      // If this fails, the process that follows the sweep submits the trial again.
      [[maybe_unused]] const int queued = std::system(place_.requeue.c_str());
    }
    return static_cast<ExitCode>(event.exit);
  }

  const SweepLayout& sweep_;
  const Submission& submission_;
  const std::uint64_t trial_;
  const TaskPlace& place_;
  TaskAccount& account_;
  WorkerSet workers_;  // while this object exists, signals arrive only through it
  LastLines said_;
  std::optional<int> stopped_by_;
  bool is_to_be_queued_ = false, is_out_of_time_ = false;
};

}  // namespace

Result<ExitCode> run_task(const fs::path& folder, const std::string& index,
                          const TaskPlace& place) {
  const auto submission = read_submission(folder);
  if (!submission) return submission.errors();
  const bool is_number =
      !index.empty() && index.size() < 10 &&
      std::ranges::all_of(index, [](char letter) { return letter >= '0' && letter <= '9'; });
  const std::size_t task = is_number ? std::stoul(index) : submission->trials.size();
  if (task >= submission->trials.size()) {
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      "'" + folder.string() + "' has no task '" + index + "'",
                      "its tasks are 0 to " + std::to_string(submission->trials.size() - 1)};
  }
  const SweepLayout sweep(fs::absolute(folder).lexically_normal().parent_path().parent_path());
  const auto plan = SweepJournal::read(sweep.folder());
  if (!plan) return plan.errors();
  TaskAccount account(LaunchLayout(sweep.folder()).account(submission->number, task));
  const std::uint64_t trial = submission->trials[task];
  if (run_status(sweep.run(trial)) == "finished") {
    account.add({.state = TrialState::kFinished});
    return ExitCode::kDone;
  }
  std::error_code error;
  fs::current_path(plan->folder, error);  // base of the recipe's relative paths
  return TaskAtWork(sweep, *submission, trial, place, account)();
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptLines = 40;

/// Renames the folder of a run that was begun but cannot be continued.
void set_aside(const SweepLayout& sweep, std::uint64_t number) {
  const fs::path run = sweep.run(number);
  std::error_code error;
  if (!fs::exists(run, error)) return;
  for (int attempt = 1;; ++attempt) {
    const fs::path aside = sweep.set_aside(number, attempt);
    if (fs::exists(aside, error)) continue;
    fs::rename(run, aside, error);
    return;  // if this fails, `retort run` reports that the folder exists
  }
}

}  // namespace

std::string run_status(const fs::path& run) {
  std::ifstream file = open_regular(RunLayout(run).summary());
  const auto json = parse_json<nlohmann::json>(file);
  return json.is_object() ? json.value("status", "") : "";
}

WorkerCommand trial_command(const SweepLayout& sweep, std::uint64_t number, const fs::path& program,
                            const std::vector<std::string>& further,
                            const std::vector<std::string>& of_new,
                            const std::vector<std::string>& of_resumed, bool anew) {
  const fs::path run = sweep.run(number);
  WorkerCommand command{.program = program};
  if (!anew && read_run(run)) {
    command.arguments = {"resume", run.string(), "-q"};
  } else {
    set_aside(sweep, number);
    command.arguments = {"run", sweep.recipe(number).string(),
                         "run.dir=" + element_text(Value{run.string(), {}}), "-q"};
  }
  command.arguments.insert(command.arguments.end(), further.begin(), further.end());
  const std::vector<std::string>& last = is_resumed(command) ? of_resumed : of_new;
  command.arguments.insert(command.arguments.end(), last.begin(), last.end());
  return command;
}

bool is_resumed(const WorkerCommand& command) { return command.arguments.front() == "resume"; }

void LastLines::add(std::string_view text) {
  for (const char letter : text) {
    if (letter == '\n') end_line();
    else if (line_.size() < 1000) line_ += letter;
  }
}

std::deque<std::string> LastLines::take() {
  if (!line_.empty()) end_line();
  return std::move(lines_);
}

void LastLines::end_line() {
  lines_.push_back(std::exchange(line_, ""));
  if (lines_.size() > kKeptLines) lines_.pop_front();
}

std::string failure_reason(const std::deque<std::string>& said, int exit) {
  for (const std::string& line : said)
    if (const std::size_t error = line.find("error["); error != line.npos)
      return line.substr(error);
  return "exit code " + std::to_string(exit);
}

}  // namespace runner
