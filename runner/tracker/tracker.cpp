#include "runner/tracker/tracker.h"

#include <cstdlib>
#include <utility>

#include "runner/shared/disk/write_error.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kBetweenTrackerReads = 1s;
constexpr auto kLongestPause = 30s;    // maximum pause between two attempts
constexpr auto kServerPatience = 30s;  // time after which a silent server is reported
constexpr auto kLongestTrackerRequest = 20s;

std::map<std::string, std::string> texts_in(const json& object) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items()) texts[key] = value.get<std::string>();
  return texts;
}

TrackedRun tracked_run(const json& request) {
  const JsonFields<json> fields(request, "the run");
  return {.metrics = fields.text("metrics"),
          .state = fields.text("state"),
          .name = fields.text("name"),
          .began = fields.integer("began"),
          .params = texts_in(fields.object("params")),
          .tags = texts_in(fields.object("tags")),
          .prefixes = texts_in(fields.object("prefixes"))};
}

std::string variable_or_none(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool Tracker::operator()() {
  std::optional<std::string> line;
  while (!(line = input_.next(1h)) && !input_.is_over()) {
  }
  if (!line) return false;
  const json request = parse_json<json>(*line);
  const JsonFields<json> fields(request, "the request");
  tries_ = static_cast<int>(fields.count("tries"));
  limit_ = std::chrono::seconds(fields.count("limit_seconds"));
  patience_ =
      EndPatience({.everything = limit_,
                   .answer = std::chrono::milliseconds(fields.count("answer_milliseconds"))});
  const MlflowServer server({.address = fields.text("server"),
                             .token = variable_or_none("MLFLOW_TRACKING_TOKEN"),
                             .user = variable_or_none("MLFLOW_TRACKING_USERNAME"),
                             .password = variable_or_none("MLFLOW_TRACKING_PASSWORD")},
                            {.connect_seconds = 10,
                             .canceled = [this] { return is_out_of_time(); },
                             .longest = kLongestTrackerRequest},
                            &patience_);
  const JsonFields<json> experiment(fields.object("experiment"), "the experiment");
  const json& sweep = fields.at("sweep");
  MlflowRun run(server, {.name = experiment.text("name"), .id = experiment.text("id")},
                tracked_run(fields.object("run")),
                sweep.is_null() ? std::nullopt : std::optional(tracked_run(sweep)));
  Outcome outcome = follow(run);
  if (outcome == Outcome::kDone) outcome = finish(run);
  if (outcome != Outcome::kDone) return false;
  answer_({{"done",
            {{"run_id", run.state().run},
             {"experiment_id", run.state().experiment},
             {"sent", run.sent()}}}});
  return true;
}

/// Sends what the run measures until it ends. If the server does not respond, retries at increasing
/// intervals.
Tracker::Outcome Tracker::follow(MlflowRun& run) {
  std::chrono::milliseconds pause = kBetweenTrackerReads;
  auto answered = Clock::now();
  while (!end_ && !input_.is_over()) {
    try {
      LateStorage unflushed(disk());  // a flush could delay the run
      if (send_all(run)) run.save(unflushed);
      answered = Clock::now();
      pause = kBetweenTrackerReads;
    } catch (const TrackingError& error) {
      if (!error.is_passing) {
        fail(error.what());
        return Outcome::kFailed;
      }
      pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause);
      if (Clock::now() - answered > kServerPatience) fail(error.what());
    } catch (const WriteError& error) {
      fail(error.diagnostic().message);
      return Outcome::kFailed;
    } catch (const Canceled&) {
      break;
    }
    listen(pause);
  }
  return end_ ? Outcome::kDone : Outcome::kStopped;
}

/// Sends the rest, within the limits.
Tracker::Outcome Tracker::finish(MlflowRun& run) {
  std::string why;
  for (int attempt = 1; attempt <= tries_ && !is_out_of_time(); ++attempt) {
    if (attempt > 1) listen(1s * (1 << (attempt - 2)));
    try {
      send_all(run);
      run.complete();
      send_all(run);
      run.end(end_->value("status", "FINISHED"), end_->value("time", std::int64_t{0}));
      return Outcome::kDone;
    } catch (const TrackingError& error) {
      why = error.what();
      if (!error.is_passing) break;
    } catch (const WriteError& error) {
      why = error.diagnostic().message;
      break;
    } catch (const Canceled&) {
      break;
    }
  }
  if (why.empty()) why = why_out_of_time();
  if (!run.state().run.empty()) {
    try {
      run.save();
    } catch (const WriteError&) {  // the next export then sends more than it needs to
    }
  }
  fail(why);
  return Outcome::kFailed;
}

/// Returns false if there was nothing to send.
bool Tracker::send_all(MlflowRun& run) {
  run.begin();
  bool has_sent = false;
  while (run.send_next()) has_sent = true;
  return has_sent;
}

void Tracker::listen(std::chrono::milliseconds time) {
  if (end_) return static_cast<void>(input_.next(time));
  const auto line = input_.next(time);
  if (!line) return;
  const json message = parse_json<json>(*line);
  if (!message.is_object() || !message.contains("end") || !message["end"].is_object()) return;
  end_ = message["end"];
  has_failed_ = false;
  patience_.end(Clock::now());
}

/// Polled during requests, so it also checks whether the run has ended.
bool Tracker::is_out_of_time() {
  if (!end_ && !input_.is_over()) listen(0ms);
  if (!end_) return input_.is_over();
  const bool is_over = patience_.verdict(Clock::now()) != EndPatience::Verdict::kWait;
  // Reports this before libcurl gives up, which may take a long time while it resolves a name.
  if (is_over) fail(why_out_of_time());
  return is_over;
}

std::string Tracker::why_out_of_time() const {
  if (patience_.verdict(Clock::now()) == EndPatience::Verdict::kSilent)
    return "the server does not respond, and the run has ended";
  return "the server did not accept everything within " + std::to_string(limit_.count()) +
         " s after the end of the run";
}

void Tracker::fail(const std::string& why) {
  if (!std::exchange(has_failed_, true)) answer_({{"failed", why}});
}

}  // namespace runner
