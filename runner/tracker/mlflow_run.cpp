#include "runner/tracker/mlflow_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runner/shared/disk/digest.h"
#include "runner/tracker/mlflow_names.h"

namespace runner {
namespace {

using nlohmann::json;

constexpr std::size_t kMostWaiting = 10'000;    // metrics held in memory; the rest are in the file
constexpr std::size_t kLongestBatch = 500'000;  // bytes; MLflow accepts one megabyte
constexpr const char* kKeyTag = "retort.key";
constexpr const char* kNotFound = "RESOURCE_DOES_NOT_EXIST";

/// JSON has no NaN or infinities; MLflow accepts strings in their place (proto3's JSON mapping).
json proto_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

json entries_of(const std::map<std::string, std::string>& values, std::size_t longest) {
  json entries = json::array();
  for (const auto& [key, value] : values)
    entries.push_back({{"key", mlflow_name(key)}, {"value", mlflow_value(value, longest)}});
  return entries;
}

std::string member_text(const json& object, const char* outer, const char* inner) {
  const json& found = object.value(outer, json::object());
  const json& text = found.is_object() ? found.value(inner, json()) : json();
  return text.is_string() ? text.get<std::string>() : "";
}

MlflowState state_of(const TrackedRun& run, const std::string& server) {
  auto recorded = read_mlflow_state(run.state, server);
  if (recorded) return *std::move(recorded);
  return {.server = server,
          .key = sha256(run.state.string() + '\n' + std::to_string(run.began)),
          .began = run.began};
}

}  // namespace

MlflowRun::MlflowRun(const MlflowServer& server, TrackedExperiment experiment, TrackedRun run,
                     std::optional<TrackedRun> parent)
    : server_(server),
      experiment_(std::move(experiment)),
      run_(std::move(run)),
      parent_(std::move(parent)),
      state_(state_of(run_, server.address())),
      was_recorded_(read_mlflow_state(run_.state, server.address()).has_value()),
      tail_(run_.metrics) {}

void MlflowRun::begin() {
  if (has_begun_) return;
  if (state_.run.empty() || !continues()) create();
  describe();
  has_begun_ = true;
}

/// Continues the run on the server; false if it has been removed there.
bool MlflowRun::continues() {
  try {
    server_.post("runs/update", {{"run_id", state_.run}, {"status", "RUNNING"}});
    return true;
  } catch (const TrackingError& error) {
    if (error.code != kNotFound) throw;
    state_ = {.server = state_.server, .key = state_.key, .began = state_.began};
    return false;
  }
}

void MlflowRun::create() {
  if (state_.experiment.empty()) state_.experiment = experiment_id();
  // A request without a response may still have created the run, so the key is written to disk
  // first.
  if (was_recorded_) return find_or_create();
  save();
  was_recorded_ = true;
  find_or_create();
}

void MlflowRun::find_or_create() {
  const json found = server_.post(
      "runs/search", {{"experiment_ids", {state_.experiment}},
                      {"filter", "tags.`" + std::string(kKeyTag) + "` = '" + state_.key + "'"},
                      {"max_results", 1}});
  const json& runs = found.value("runs", json::array());
  if (runs.is_array() && !runs.empty()) {
    state_.run = member_text(runs[0], "info", "run_id");
  } else {
    json tags = json::array({{{"key", kKeyTag}, {"value", state_.key}}});
    const auto user = run_.tags.find("mlflow.user");
    const json created =
        server_.post("runs/create", {{"experiment_id", state_.experiment},
                                     {"user_id", user == run_.tags.end() ? "" : user->second},
                                     {"start_time", state_.began},
                                     {"run_name", run_.name},
                                     {"tags", std::move(tags)}});
    state_.run = member_text(created.value("run", json::object()), "info", "run_id");
  }
  if (state_.run.empty())
    throw TrackingError(server_.address() + " does not respond like an MLflow server", false);
  save();
}

std::string MlflowRun::experiment_id() const {
  if (experiment_.name.empty() && !experiment_.id.empty()) return experiment_.id;
  const std::string name = experiment_.name.empty() ? "Default" : experiment_.name;
  for (bool is_again = false;; is_again = true) {
    try {
      const json found = server_.get("experiments/get-by-name", "experiment_name", name);
      if (member_text(found, "experiment", "lifecycle_stage") == "deleted")
        throw TrackingError("the experiment '" + name + "' on " + server_.address() +
                                " was deleted; restore it there, or set MLFLOW_EXPERIMENT_NAME "
                                "to another name",
                            false);
      return member_text(found, "experiment", "experiment_id");
    } catch (const TrackingError& error) {
      if (error.code != kNotFound || is_again) throw;
    }
    try {
      const json created = server_.post("experiments/create", {{"name", name}});
      if (const json id = created.value("experiment_id", json()); id.is_string()) return id;
    } catch (const TrackingError& error) {
      if (error.code != "RESOURCE_ALREADY_EXISTS") throw;  // another process was faster
    }
  }
}

void MlflowRun::describe() {
  json tags = entries_of(run_.tags, kLongestTagValue);
  if (parent_) tags.push_back({{"key", "mlflow.parentRunId"}, {"value", sweep_run()}});
  if (!state_.is_described) log("params", kMostParams, entries_of(run_.params, kLongestParamValue));
  else tag_changes(server_.get("runs/get", "run_id", state_.run));
  log("tags", kMostTags, tags);
  state_.is_described = true;
  save();
}

/// MLflow never changes a parameter, so those changed by a resumed run are stored as tags.
void MlflowRun::tag_changes(const json& before) {
  std::map<std::string, std::string> known;
  const json& run = before.value("run", json::object());
  const json& data = run.is_object() ? run.value("data", json::object()) : json::object();
  for (const json& param : data.is_object() ? data.value("params", json::array()) : json::array())
    if (param.is_object()) known[param.value("key", "")] = param.value("value", "");
  json fresh = json::array(), changed = json::array();
  for (const json& param : entries_of(run_.params, kLongestParamValue)) {
    const auto found = known.find(param["key"]);
    if (found == known.end()) fresh.push_back(param);
    else if (found->second != param["value"])
      changed.push_back({{"key", "retort.resumed." + param["key"].get<std::string>()},
                         {"value", param["value"]}});
  }
  log("params", kMostParams, fresh);
  log("tags", kMostTags, changed);
}

/// Sends parameters or tags in requests of at most `most` entries.
void MlflowRun::log(const char* kind, std::size_t most, const json& entries) const {
  json batch = json::array();
  std::size_t bytes = 0;
  const auto send_batch = [&] {
    if (!batch.empty()) server_.post("runs/log-batch", {{"run_id", state_.run}, {kind, batch}});
    batch = json::array();
    bytes = 0;
  };
  for (const json& entry : entries) {
    const std::size_t more = entry.dump(-1, ' ', false, json::error_handler_t::replace).size();
    if (batch.size() == most || bytes + more > kLongestBatch) send_batch();
    batch.push_back(entry);
    bytes += more;
  }
  send_batch();
}

/// Returns the id of the sweep's run, which is created by one of its trials.
std::string MlflowRun::sweep_run() const {
  const auto known = [&] { return read_mlflow_state(parent_->state, server_.address()); };
  if (const auto state = known(); state && state->is_described) return state->run;
  const auto turn = Turn::take(
      parent_->state.string() + ".turn", [] { return false; }, [] {});
  if (const auto state = known(); state && state->is_described) return state->run;
  MlflowRun sweep(server_, experiment_, *parent_);
  sweep.begin();
  return sweep.state().run;
}

/// Reads more of the file; after send_again(), starts again at its beginning.
void MlflowRun::read() {
  while (!read_some()) {
  }
}

/// Returns false if metrics must be sent again.
bool MlflowRun::read_some() {
  LineTail::News news = tail_.next(kMostWaiting - std::min(kMostWaiting, waiting_.size()));
  if (news.is_anew) {
    waiting_.clear();
    seen_.clear();
  }
  for (const std::string& text : news.lines) {
    auto line = metric_line(text);
    if (line && !take(*std::move(line))) return false;
  }
  return true;
}

/// Takes the next line of the file, unless the server has it. Returns false if the server has a
/// different one in its place.
bool MlflowRun::take(MetricLine line) {
  SentMetrics& seen = seen_[line.metric.node];
  const SentMetrics& sent = state_.sent[line.metric.node];
  seen.add(line);
  const bool is_other = seen.count == sent.count && seen != sent;
  if (is_other) send_again(line.metric.node);
  else if (seen.count > sent.count) waiting_.push_back({std::move(line), seen});
  return !is_other;
}

/// Starts over with the file, to send the metrics of `node` again. The server ignores a metric that
/// it already has with the same time, step and value.
void MlflowRun::send_again(const std::string& node) {
  state_.sent.erase(node);
  tail_.rewind();
  waiting_.clear();
  seen_.clear();
}

void MlflowRun::complete() {
  for (const auto& [node, sent] : std::map(state_.sent))
    if (sent.count > seen_[node].count) send_again(node);
}

bool MlflowRun::send_next() {
  if (waiting_.size() < kMostMetrics) read();
  if (waiting_.empty()) return false;
  const std::size_t count = std::min(waiting_.size(), kMostMetrics);
  json metrics = json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [metric, seconds] = waiting_[i].line;
    const auto prefix = run_.prefixes.find(metric.node);
    metrics.push_back(
        {{"key", mlflow_name((prefix == run_.prefixes.end() ? "" : prefix->second) + metric.name)},
         {"value", proto_number(metric.value)},
         {"timestamp", state_.began + std::llround(seconds * 1000)},
         {"step", metric.step}});
  }
  server_.post("runs/log-batch", {{"run_id", state_.run}, {"metrics", std::move(metrics)}});
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto one = waiting_.begin(); one != end; ++one)
    state_.sent[one->line.metric.node] = one->after;
  waiting_.erase(waiting_.begin(), end);
  return true;
}

void MlflowRun::end(const std::string& status, std::int64_t time) {
  server_.post("runs/update", {{"run_id", state_.run}, {"status", status}, {"end_time", time}});
  save();
}

std::int64_t MlflowRun::sent() const {
  std::int64_t sum = 0;
  for (const auto& [node, sent] : state_.sent) sum += sent.count;
  return sum;
}

}  // namespace runner
