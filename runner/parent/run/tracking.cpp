#include "runner/parent/run/tracking.h"

#include <csignal>
#include <utility>

#include <poll.h>

#include "runner/parent/run/supervise.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr auto kTrackerPoll = 500ms;      // interval between checks on a running tracker
constexpr auto kTrackerPollAtEnd = 20ms;  // the same, once only the tracker is still running
constexpr auto kTrackerGrace = 500ms;     // time to exit after it has failed or reached its limit

}  // namespace

void Tracking::begin(const MlflowTarget& target, const Json& request) {
  if (std::exchange(was_started_, true)) return;
  server_ = target.server;
  folder_ = request["run"]["tags"].value("retort.folder", "");
  auto started = WorkerProcess::start({.program = target.tracker});
  if (!started) return warn(started.errors().front().message);
  process_.emplace(*std::move(started));
  process_->send(request.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::optional<std::chrono::milliseconds> Tracking::tick() {
  if (!process_) return std::nullopt;
  std::vector<WorkerNews> news;
  WorkerProcess::Watched watched = process_->watched();
  if (poll(watched.data(), watched.size(), 0) > 0) process_->serve(watched, news);
  process_->collect(news);
  for (const WorkerNews& one : news) hear(one);
  if (!process_) return std::nullopt;
  const bool is_sending = process_->watched()[0].fd >= 0;
  return is_sending ? kTrackerPollAtEnd : kTrackerPoll;
}

void Tracking::hear(const WorkerNews& news) {
  if (const auto* line = std::get_if<EventLine>(&news)) {
    const Json answer = parse_json<Json>(line->text);
    if (!answer.is_object()) return;
    if (answer.contains("done")) done_ = answer["done"];
    if (const auto failed = answer.find("failed"); failed != answer.end() && failed->is_string()) {
      has_failed_ = true;
      warn(failed->get<std::string>());
    }
  }
  const auto* exit = std::get_if<WorkerExit>(&news);
  if (!exit) return;
  process_.reset();
  if (exit->signal) warn("retort-tracker was killed by " + signal_name(exit->signal));
  else if (exit->exit != 0) warn("retort-tracker exited with code " + std::to_string(exit->exit));
}

std::optional<Json> Tracking::end(const Json& line, std::chrono::seconds limit) {
  if (!process_) return std::nullopt;
  SignalSource signals;  // a signal ends the wait, but not this process
  process_->send(line.dump());
  has_failed_ = false;
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> deadline;
  if (limit > 0s) deadline = Clock::now() + limit + kTrackerGrace;
  for (bool is_leaving = false; tick();) {
    if (has_failed_ && !std::exchange(is_leaving, true)) deadline = Clock::now() + kTrackerGrace;
    pollfd asked{signals.descriptor(), POLLIN, 0};
    poll(&asked, 1, static_cast<int>(kTrackerPollAtEnd.count()));
    std::string why;
    for (std::optional<int> signal; (signal = signals.next());)
      if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP)
        why = "waiting for it was stopped by " + signal_name(*signal);
    if (deadline && Clock::now() > *deadline) why = "it did not accept everything in time";
    if (why.empty()) continue;
    process_.reset();
    warn(why);
  }
  return std::exchange(done_, std::nullopt);
}

void Tracking::warn(const std::string& why) {
  if (std::exchange(has_warned_, true)) return;
  warn_({ErrorCode::kNotTracked,
         {},
         "/run/mlflow",
         "the MLflow server at " + server_ + " did not receive all of the run: " + printable(why),
         "the run is not affected; `retort export " + printable(folder_) + " --mlflow " + server_ +
             "` sends the rest",
         {},
         Severity::kWarning});
}

}  // namespace runner
