#include "runner/parent/sweep/run_trials.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <fstream>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/parent/report/main_metric.h"
#include "runner/parent/run/worker_process.h"
#include "runner/parent/sweep/run_task.h"
#include "runner/parent/sweep/trial_table.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kShownLines = 12;
constexpr std::size_t kFlushedTogether = 100;  // number of trials
constexpr std::size_t kNamedMetrics = 8;
constexpr auto kFlushedWithin = std::chrono::seconds(5);

/// A running trial.
struct RunningTrial {
  std::uint64_t number;
  Clock::time_point began;
  LastLines said = {};
  bool is_out_of_time = false;
  std::optional<MetricTail> tail = {};  // reads the metric used to compare trials
  std::size_t seen = 0;                 // number of values compared so far
  bool is_cut = false;                  // stopped early because other trials were better

  double seconds() const { return std::chrono::duration<double>(Clock::now() - began).count(); }
};

/// The state while trials are running.
class TrialPool {
 public:
  TrialPool(SweepJournal& journal, const TrialOptions& options,
            const TrialSurroundings& surroundings, TrialSource* source)
      : journal_(journal),
        layout_(journal.folder()),
        options_(options),
        surroundings_(surroundings),
        source_(source),
        table_(journal, surroundings.err, surroundings.display) {
    if (journal.plan().asha) catch_up(*journal.plan().asha);
    for (const Trial& trial : journal.trials()) {
      if (!is_over(layout_, trial)) waiting_.push_back(trial.number);
      count_settings(trial);
    }
    done_ = journal.trials().size() - waiting_.size();
    if (done_ > 0)
      say(std::to_string(done_) + " of " + std::to_string(journal.trials().size()) +
          " trials have finished");
  }

  ExitCode operator()() {
    while (true) {
      add_new();
      while (!is_stopping() && !waiting_.empty() && std::ssize(running_) < options_.slots)
        start_next();
      if (running_.empty() && (is_stopping() || (waiting_.empty() && !may_come()))) break;
      take(workers_.next(next_look()));
      stop_the_late();
      for (auto& [worker, trial] : running_) compare(trial, worker);
      flush_sometimes();
    }
    if (!journal_.plan().unflushed.empty()) journal_.flush();
    if (stopped_by_) return exit_code_of_stop(*stopped_by_, /*has_saved=*/true);
    if (asha_ && !is_compared()) return ExitCode::kBadRecipe;
    const bool all = std::ranges::all_of(journal_.trials(), [](const Trial& trial) {
      return trial.state == TrialState::kFinished || trial.state == TrialState::kStopped;
    });
    return all ? ExitCode::kDone : ExitCode::kSomeTrialsFailed;
  }

 private:
  bool may_come() const { return source_ && !source_->is_done(); }

  /// Adds the trials that an external sampler has chosen for the free slots.
  void add_new() {
    const std::size_t taken = running_.size() + waiting_.size(),
                      slots = static_cast<std::size_t>(options_.slots);
    if (!may_come() || is_stopping()) return;
    for (const std::uint64_t number : source_->take(slots > taken ? slots - taken : 0)) {
      count_settings(journal_.trials()[number]);
      waiting_.push_back(number);
    }
  }

  void count_settings(const Trial& trial) {
    for (const std::string& setting : std::set(trial.settings.begin(), trial.settings.end()))
      ++uses_[setting];
  }

  /// Flushes trials in batches, because flushing each one separately could take longer than running
  /// it.
  void flush_sometimes() {
    if (unflushed_ == 0 ||
        (unflushed_ < kFlushedTogether && Clock::now() - flushed_ < kFlushedWithin))
      return;
    journal_.flush();
    unflushed_ = 0;
    flushed_ = Clock::now();
  }

  bool is_stopping() const { return stopped_by_ || (options_.fail_fast && has_failed_); }

  /// Applies comparisons that were recorded by earlier processes but not acted on.
  void catch_up(const AshaOptions& options) {
    asha_.emplace(options, is_smaller_better(options.metric));
    for (const RungValue& reached : std::vector(journal_.plan().rungs)) {
      const Trial& trial = journal_.trials()[reached.trial];
      if (!asha_->stops(reached) || is_over(layout_, trial)) continue;
      journal_.ended(trial.number, TrialState::kStopped,
                     static_cast<int>(ExitCode::kStoppedAfterSave),
                     journal_.seconds_of_open_attempt(trial));
    }
  }

  /// Compares a trial at each rung it has reached, and stops it unless it is among the best.
  void compare(RunningTrial& trial, WorkerProcess* worker) {
    if (!trial.tail || trial.is_cut) return;
    const std::vector<double>& values = trial.tail->values();
    for (; !trial.is_cut && trial.seen < values.size(); ++trial.seen) {
      const auto rung = asha_->rung_at(static_cast<std::int64_t>(trial.seen) + 1);
      if (!rung || *rung < journal_.trials()[trial.number].rungs.size())
        continue;  // it was compared before it was resumed
      journal_.reached(trial.number, values[trial.seen]);
      trial.is_cut = asha_->stops(journal_.plan().rungs.back());
    }
    if (trial.is_cut && worker) worker->signal(SIGTERM);
  }

  /// Warns that a finished trial never measured the metric by which trials are compared.
  void warn_of_silence(std::uint64_t number) {
    const std::vector<std::string> given = metric_names(RunLayout(layout_.run(number)).metrics());
    const std::string& wanted = journal_.plan().asha->metric;
    const std::string near = did_you_mean_path(wanted.substr(wanted.find(':') + 1), given);
    report("warning: trial " + std::to_string(number) + " never measured '" + wanted +
           "', which sweep.asha uses to compare trials; it measured " +
           (given.empty() ? "nothing" : listed(given, kNamedMetrics)) +
           (near.empty() ? "" : "; " + near));
  }

  /// True if a finished trial has a value for the metric used to compare trials, or if no trial has
  /// finished yet; otherwise reports an error.
  bool is_compared() {
    const std::string& wanted = journal_.plan().asha->metric;
    bool has_finished_any = false;
    for (const Trial& trial : journal_.trials()) {
      if (trial.state == TrialState::kStopped || !trial.rungs.empty()) return true;
      if (trial.state != TrialState::kFinished) continue;
      has_finished_any = true;
      if (!MetricTail(RunLayout(layout_.run(trial.number)).metrics(), wanted).values().empty())
        return true;
    }
    if (!has_finished_any) return true;
    report("error: no trial has measured '" + wanted +
           "', so none was compared or stopped early; set sweep.asha.metric to a metric that they "
           "do measure");
    return false;
  }

  void start_next() {
    const std::uint64_t number = waiting_.front();
    waiting_.pop_front();
    WorkerCommand command =
        trial_command(layout_, number, surroundings_.program, surroundings_.arguments,
                      surroundings_.run_arguments, surroundings_.resume_arguments,
                      journal_.trials()[number].is_doubtful);
    command.body = surroundings_.body;
    if (!is_resumed(command)) command.variables = {std::string(kFlushedBySweep) + "=1"};
    auto worker = workers_.start(command);
    if (!worker) {
      journal_.started(number);
      fail(number, 0, static_cast<int>(ExitCode::kInternalError), worker.errors().front().message,
           {});
      if (source_ && !std::ranges::count(waiting_, number))
        source_->ended(journal_.trials()[number]);
      return;
    }
    journal_.started(number);
    RunningTrial trial{.number = number, .began = Clock::now()};
    if (asha_)
      trial.tail.emplace(RunLayout(layout_.run(number)).metrics(), journal_.plan().asha->metric);
    running_.emplace(*worker, std::move(trial));
    say("trial " + std::to_string(number) + (is_resumed(command) ? " resumed" : " started") +
        settings_of(number));
  }

  void take(const WorkerSet::Occurrence& occurrence) {
    if (const auto* signal = std::get_if<SignalToUs>(&occurrence))
      return handle_signal(signal->number);
    const auto* news = std::get_if<NewsOf>(&occurrence);
    if (!news) return;
    const auto found = running_.find(news->worker);
    if (found == running_.end()) return;
    if (const auto* output = std::get_if<OutputText>(&news->news))
      found->second.said.add(output->text);
    if (const auto* exit = std::get_if<WorkerExit>(&news->news)) {
      RunningTrial trial = std::move(found->second);
      running_.erase(found);
      workers_.remove(*news->worker);
      end(trial, exit->signal != 0 ? 128 + exit->signal : exit->exit);
    }
  }

  void end(RunningTrial& trial, int exit) {
    judge(trial, exit);
    ++unflushed_;
    if (source_ && !std::ranges::count(waiting_, trial.number))
      source_->ended(journal_.trials()[trial.number]);
  }

  void judge(RunningTrial& trial, int exit) {
    const double seconds = trial.seconds();
    compare(trial, nullptr);  // compares its last metrics
    if (trial.is_cut) {       // it counts as done, however it ended
      journal_.ended(trial.number, TrialState::kStopped, exit, seconds);
      ++done_;
      return say("trial " + std::to_string(trial.number) + " stopped early: others are better" +
                 progress());
    }
    if (exit == 0) {
      journal_.ended(trial.number, TrialState::kFinished, exit, seconds);
      ++done_;
      if (trial.tail && trial.tail->values().empty()) warn_of_silence(trial.number);
      return say("trial " + std::to_string(trial.number) + " finished in " +
                 duration_text(seconds) + progress());
    }
    if (trial.is_out_of_time) {
      return fail(
          trial.number, seconds, exit,
          "its time limit of " + std::to_string(options_.time_out->count()) + " min was reached",
          {});
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
    report("trial " + std::to_string(number) + " failed" + settings_of(number) + ": " + reason +
           (is_tried_again ? "; it will be retried" : ""));
    const std::size_t first = said.size() > kShownLines ? said.size() - kShownLines : 0;
    for (std::size_t i = first; i < said.size(); ++i)
      if (said[i] != reason) report("    " + said[i]);
    if (options_.fail_fast && has_failed_) ask_to_stop(SIGTERM);
  }

  void handle_signal(int number) {
    if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
      ask_to_stop(number);  // a second SIGINT kills the trials
      if (!stopped_by_) report("stopping: running trials save first");
      if (!stopped_by_) stopped_by_ = number;
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      for (const auto& [worker, trial] : running_) worker->signal(number);
    }
  }

  void ask_to_stop(int signal) {
    for (const auto& [worker, trial] : running_) worker->signal(signal);
  }

  std::optional<std::chrono::milliseconds> next_look() {
    std::optional<std::chrono::milliseconds> soonest = table_.tick();
    const auto within = [&](int milliseconds) {
      const std::chrono::milliseconds wait(milliseconds);
      soonest = std::min(soonest.value_or(wait), wait);
    };
    if (may_come()) within(20);
    if (asha_) within(100);
    if (options_.time_out) within(1000);
    return soonest;
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
    std::vector<std::string> own;  // excludes the settings that all trials share
    for (const std::string& setting : journal_.trials()[number].settings)
      if (uses_.at(setting) < journal_.trials().size()) own.push_back(setting);
    return own.empty() ? "" : " (" + join(own, " ") + ")";
  }

  std::string progress() const {
    return ": " + std::to_string(done_) + " of " + std::to_string(journal_.trials().size());
  }

  void say(const std::string& line) {
    if (surroundings_.verbosity != Verbosity::kQuiet) report(line);
  }
  void report(const std::string& line) { table_.say(line); }

  SweepJournal& journal_;
  const SweepLayout layout_;
  const TrialOptions& options_;
  const TrialSurroundings& surroundings_;
  TrialSource* const source_;  // may be null
  LiveTrials table_;
  WorkerSet workers_;
  std::map<WorkerProcess*, RunningTrial> running_;
  std::deque<std::uint64_t> waiting_;
  std::optional<Asha> asha_;
  std::map<std::uint64_t, int> failures_;
  std::map<std::string, std::size_t> uses_;  // number of trials that have each setting
  std::size_t done_ = 0;
  bool has_failed_ = false;
  std::optional<int> stopped_by_;
  std::size_t unflushed_ = 0;  // number of trials that have ended since the last flush
  Clock::time_point flushed_ = Clock::now();
};

}  // namespace

bool is_over(const SweepLayout& layout, const Trial& trial) {
  if (trial.state == TrialState::kStopped) return true;
  // A trial is run again if its run folder was removed.
  return trial.state == TrialState::kFinished && run_status(layout.run(trial.number)) == "finished";
}

ExitCode run_trials(SweepJournal& journal, const TrialOptions& options,
                    const TrialSurroundings& surroundings, TrialSource* source) {
  return TrialPool(journal, options, surroundings, source)();
}

const std::vector<double>& MetricTail::values() {
  const LineTail::News news = tail_.next();
  if (news.is_anew) values_.clear();
  for (const std::string& line : news.lines) take(line);
  return values_;
}

void MetricTail::take(const std::string& line) {
  const std::string_view name =
      std::string_view(metric_).substr(metric_.find(':') + 1);  // the whole name if it has no node
  if (line.find(name) == line.npos) return;                     // skips most lines
  const auto json = parse_json<nlohmann::json>(line);
  if (!json.is_object() || json.value("name", nlohmann::json()) != name) return;
  if (name.size() < metric_.size() &&
      json.value("node", nlohmann::json()) != metric_.substr(0, metric_.find(':')))
    return;
  const auto value = json.contains("value") ? number_from_json(json["value"]) : std::nullopt;
  if (value) values_.push_back(*value);
}

std::vector<std::string> metric_names(const std::filesystem::path& file) {
  std::set<std::string> names;
  std::ifstream lines = open_regular(file, std::ios::binary);
  for (std::string line; std::getline(lines, line);) {
    const auto json = parse_json<nlohmann::json>(line);
    const auto name = json.is_object() ? json.value("name", nlohmann::json()) : nlohmann::json();
    if (name.is_string() && !name.get<std::string>().starts_with("memory/")) names.insert(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace runner
