#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/http_server.h"

/// A server that answers like MLflow's tracking server, as far as Retort uses it, and rejects what
/// MLflow would reject.
class FakeMlflow {
 public:
  using Json = nlohmann::json;

  struct Run {
    std::string id, experiment, name, status = "RUNNING";
    std::map<std::string, std::string> params = {}, tags = {};
    /// Name, step, time, value as JSON; MLflow ignores a metric that it already has.
    std::set<std::tuple<std::string, std::int64_t, std::int64_t, std::string>> metrics = {};

    std::size_t count(const std::string& name) const {
      std::size_t found = 0;
      for (const auto& metric : metrics) found += std::get<0>(metric) == name;
      return found;
    }
  };

  std::string url() const { return server_.url(); }
  std::vector<Run> runs() const {
    const std::lock_guard lock(mutex_);
    return runs_;
  }
  Run run(std::size_t at = 0) const { return runs().at(at); }
  std::vector<SeenRequest> seen() const { return server_.seen(); }
  void forget_runs() {
    const std::lock_guard lock(mutex_);
    runs_.clear();
  }
  /// Sets the answer to the next requests of a method: a server error, or none at all; with
  /// `is_done`, the request is carried out and the answer is lost.
  void fail(const std::string& method, int status, bool is_done = false) {
    const std::lock_guard lock(mutex_);
    failures_[method] = {status, is_done};
  }
  void recover() {
    const std::lock_guard lock(mutex_);
    failures_.clear();
  }

 private:
  struct Failure {
    int status;  // 0: it stalls
    bool is_done;
  };

  static ServedReply refused(int status, const std::string& code, const std::string& message = "") {
    return {.status = status, .body = Json{{"error_code", code}, {"message", message}}.dump()};
  }

  ServedReply answer(const SeenRequest& request) {
    const std::lock_guard lock(mutex_);
    const std::string api = "/api/2.0/mlflow/";
    std::string method = request.target.substr(0, request.target.find('?'));
    if (!method.starts_with(api)) return {.status = 404, .body = "<html>"};
    method = method.substr(api.size());
    for (const std::string& name : {method, std::string("*")}) {
      const auto failure = failures_.find(name);
      if (failure == failures_.end()) continue;
      if (failure->second.is_done) done(method, request);
      if (failure->second.status == 0) return {.stalls = true};
      return refused(failure->second.status, "INTERNAL_ERROR", "out of order");
    }
    return done(method, request);
  }

  ServedReply done(const std::string& method, const SeenRequest& request) {
    const std::string given = request.target.substr(request.target.find('=') + 1);
    const Json arguments = request.body.empty() ? Json::object() : Json::parse(request.body);
    if (method == "experiments/get-by-name") {
      if (!experiments_.contains(given)) return refused(404, "RESOURCE_DOES_NOT_EXIST");
      return said({{"experiment",
                    {{"experiment_id", experiments_[given]}, {"lifecycle_stage", "active"}}}});
    }
    if (method == "experiments/create") {
      const std::string id = std::to_string(experiments_.size());
      experiments_[arguments.at("name")] = id;
      return said({{"experiment_id", id}});
    }
    if (method == "runs/search") return search(arguments);
    if (method == "runs/create") return create(arguments);
    Run* const run = find(method == "runs/get" ? given : arguments.at("run_id").get<std::string>());
    if (!run) return refused(404, "RESOURCE_DOES_NOT_EXIST", "no run");
    if (method == "runs/update") run->status = arguments.at("status");
    if (method == "runs/log-batch") return log(*run, arguments);
    if (method != "runs/get") return said(Json::object());
    Json params = Json::array();
    for (const auto& [key, value] : run->params) params.push_back({{"key", key}, {"value", value}});
    return said({{"run", {{"data", {{"params", params}}}}}});
  }

  static ServedReply said(const Json& json) { return {.body = json.dump()}; }

  Run* find(const std::string& id) {
    for (Run& run : runs_)
      if (run.id == id) return &run;
    return nullptr;
  }

  ServedReply search(const Json& arguments) {
    Json found = Json::array();
    for (const Run& run : runs_) {
      for (const auto& [key, value] : run.tags)
        if (arguments.at("filter") == "tags.`" + key + "` = '" + value + "'")
          found.push_back({{"info", {{"run_id", run.id}}}});
    }
    return said({{"runs", found}});
  }

  ServedReply create(const Json& arguments) {
    Run run{.id = "run" + std::to_string(runs_.size()),
            .experiment = arguments.at("experiment_id"),
            .name = arguments.at("run_name")};
    for (const Json& tag : arguments.at("tags")) run.tags[tag.at("key")] = tag.at("value");
    runs_.push_back(run);
    return said({{"run", {{"info", {{"run_id", run.id}}}}}});
  }

  static ServedReply log(Run& run, const Json& arguments) {
    const Json none = Json::array();
    const Json metrics = arguments.value("metrics", none), params = arguments.value("params", none),
               tags = arguments.value("tags", none);
    if (metrics.size() > 1000 || params.size() > 100 || tags.size() > 100)
      return refused(400, "INVALID_PARAMETER_VALUE", "too many");
    for (const Json& param : params) {
      const std::string key = param.at("key"), value = param.at("value");
      const auto [known, is_new] = run.params.emplace(key, value);
      if (value.size() > 6000 || (!is_new && known->second != value))
        return refused(400, "INVALID_PARAMETER_VALUE", "changed, or too long");
    }
    for (const Json& tag : tags) run.tags[tag.at("key")] = tag.at("value");
    for (const Json& metric : metrics)
      run.metrics.emplace(metric.at("key"), metric.at("step"), metric.at("timestamp"),
                          metric.at("value").dump());
    return said(Json::object());
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::string> experiments_ = {{"Default", "0"}};
  std::map<std::string, Failure> failures_;
  std::vector<Run> runs_;
  HttpServer server_{[this](const SeenRequest& request) { return answer(request); }};
};
