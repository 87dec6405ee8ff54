#include "runner/parent/run/hooks.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <poll.h>

#include "runner/parent/run/launched_rank.h"
#include "runner/parent/run/supervise.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr std::string_view kAfterValidation = "after_validation";
constexpr auto kHookPoll = 20ms;           // interval between checks of a running command
constexpr std::size_t kMostOutput = 4096;  // number of bytes of a command's output to keep

/// Returns the commands for `moment`.
std::vector<std::vector<std::string>> commands_of(const Value* hooks, std::string_view moment) {
  std::vector<std::vector<std::string>> commands;
  const Value* const all = hooks ? hooks->find(moment) : nullptr;
  if (!all || !all->list()) return commands;
  for (const Value& command : *all->list()) {
    std::vector<std::string> words;
    for (const Value& word : *command.list()) words.push_back(*word.reveal());
    commands.push_back(std::move(words));
  }
  return commands;
}

std::string last_output_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == text.npos) return "";
  text = text.substr(0, end + 1);
  const std::size_t newline = text.find_last_of("\r\n");
  return printable(newline == text.npos ? text : text.substr(newline + 1));
}

}  // namespace

Hooks::Hooks(const Value& recipe, Clock clock, Warn warn)
    : hooks_(recipe.find("hooks")), clock_(std::move(clock)), warn_(std::move(warn)) {
  const Value* const limit = hooks_ ? hooks_->find("timeout_seconds") : nullptr;
  if (const auto* seconds = limit ? std::get_if<std::int64_t>(&limit->data) : nullptr)
    limit_ = std::chrono::seconds(*seconds);
}

void Hooks::see(const Event& event, const std::filesystem::path& run) {
  if (!hooks_) return;
  if (const auto* reused = std::get_if<Reused>(&event)) reused_.insert(reused->node);
  const auto* metric = std::get_if<NodeMetric>(&event);
  const bool is_of_validation =
      metric && metric->name.starts_with("validation/") && !reused_.contains(metric->node);
  const bool goes_on = is_of_validation && validation_ && validation_->node == metric->node &&
                       validation_->step == metric->step;
  if (validation_ && !goes_on) end_validation(run);
  if (!is_of_validation) return;
  if (!validation_) validation_ = {metric->node, metric->step, Json::object()};
  validation_->metrics[metric->name] = number_json(metric->value);
}

void Hooks::end_validation(const std::filesystem::path& run) {
  const Validation done = *std::exchange(validation_, std::nullopt);
  add(kAfterValidation, {{"event", kAfterValidation},
                         {"run", run.string()},
                         {"node", done.node},
                         {"step", done.step},
                         {"metrics", done.metrics}});
}

void Hooks::add(std::string_view moment, const Json& event) {
  const auto before = waiting_.size();
  std::erase_if(waiting_, [&](const Call& call) {
    return moment == kAfterValidation && call.moment == kAfterValidation;
  });
  if (waiting_.size() < before) ++skipped_;
  const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::vector<std::string>& words : commands_of(hooks_, moment))
    waiting_.push_back({std::string(moment), std::move(words), line});
  if (!process_) start_next();
}

void Hooks::start_next() {
  while (!process_ && !waiting_.empty()) {
    running_ = std::move(waiting_.front());
    waiting_.pop_front();
    last_output_.clear();
    deadline_ = clock_() + limit_;
    // Only rank 0 has hooks, and a `retort` in one of them is not a rank of this run.
    std::vector<std::string> words;
    for (const std::string& variable : rank_variables())
      words.insert(words.end(), {"-u", variable});
    words.emplace_back("--");  // env does not interpret what follows as options
    words.insert(words.end(), running_->words.begin(), running_->words.end());
    auto started = WorkerProcess::start({.program = "/usr/bin/env", .arguments = std::move(words)});
    if (!started) {
      end("could not be started: " + started.errors().front().message);
      continue;
    }
    process_.emplace(*std::move(started));
    process_->send(running_->event);
    process_->end_input();
  }
}

std::optional<std::chrono::milliseconds> Hooks::tick() {
  if (!process_) return std::nullopt;
  std::vector<WorkerNews> news;
  WorkerProcess::Watched watched = process_->watched();
  if (poll(watched.data(), watched.size(), 0) > 0) process_->serve(watched, news);
  process_->collect(news);
  for (const WorkerNews& one : news) hear(one);
  if (process_ && clock_() >= deadline_)
    end("took longer than " + std::to_string(limit_.count()) + " s and was killed");
  start_next();
  return process_ ? std::optional<std::chrono::milliseconds>(kHookPoll) : std::nullopt;
}

void Hooks::hear(const WorkerNews& news) {
  if (const auto* output = std::get_if<OutputText>(&news)) {
    last_output_ += output->text;
    if (last_output_.size() > kMostOutput) last_output_.erase(0, last_output_.size() - kMostOutput);
  }
  const auto* exit = std::get_if<WorkerExit>(&news);
  if (!exit) return;
  if (exit->signal) end("was killed by " + signal_name(exit->signal));
  else if (exit->exit != 0) end("exited with code " + std::to_string(exit->exit));
  else end("");
}

/// Ends the running command. `why` says what went wrong; empty if nothing did.
void Hooks::end(const std::string& why) {
  process_.reset();
  const Call call = *std::exchange(running_, std::nullopt);
  if (why.empty()) return;
  std::string message =
      "the command '" + call.words.front() + "' of hooks." + call.moment + " " + why;
  if (const std::string line = last_output_line(last_output_); !line.empty())
    message += ": " + line;
  warn_({ErrorCode::kHookFailed,
         {},
         "/hooks/" + call.moment,
         std::move(message),
         "the run is not affected",
         {},
         Severity::kWarning});
}

void Hooks::finish(std::string_view moment, const std::filesystem::path& run, const Json& summary) {
  if (!hooks_) return;
  SignalSource signals;  // commands run only while `signals` exists, so signals end them but not
                         // this process
  if (validation_) end_validation(run);
  Json event = {{"event", moment}, {"run", run.string()}};
  event.update(summary);
  add(moment, event);
  while (const auto time = tick()) {
    pollfd asked{signals.descriptor(), POLLIN, 0};
    poll(&asked, 1, static_cast<int>(time->count()));
    for (std::optional<int> signal; (signal = signals.next());) {
      if (*signal != SIGINT && *signal != SIGTERM && *signal != SIGHUP) continue;
      waiting_.clear();
      if (process_) end("was stopped by " + signal_name(*signal));
    }
  }
  if (skipped_ > 0)
    warn_({ErrorCode::kHookFailed,
           {},
           "/hooks/after_validation",
           std::to_string(skipped_) + (skipped_ == 1 ? " validation was" : " validations were") +
               " not reported to hooks.after_validation: its commands were still running",
           "use faster commands, or validate less often",
           {},
           Severity::kWarning});
}

}  // namespace runner
