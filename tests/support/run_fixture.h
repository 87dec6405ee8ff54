#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/run/run.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/temporary_folder.h"

namespace runner {

/// Runs a recipe with one stage, and with a script as its worker.
class RunTest : public testing::Test {
 protected:
  static inline const std::string kStarted = R"(line:{"event":"node_started","node":"data"})";
  static inline const std::string kFinished =
      R"(line:{"event":"node_finished","node":"data","seconds":1.5,"peak_memory_bytes":4096})";
  static inline const std::string kMissing =
      R"(line:{"event":"diagnostic","severity":"error","code":"E0601","message":"no folder 'nowhere'","pointer":"/data/root","help":"make it","notes":[]})";
  static inline const std::string kFlush = R"(line:{"event":"flush","node":"data"})";

  static std::string metric(const std::string& value, int step) {
    return R"(line:{"event":"metric","node":"data","name":"loss","value":)" + value +
           R"(,"step":)" + std::to_string(step) + "}";
  }

  RunTest() {
    const auto& text =
        sources_.add("a.yaml", "schema: 1\ndata: {kind: data.fake, root: nowhere, key: *}\n");
    const auto at = [&](int line, int column) { return Location{&text, line, column}; };
    Value key{std::string("hunter2"), at(2, 44)};
    key.secret_as = "${oc.env:API_KEY}";
    const Value options{Value::Map{{"root", at(2, 25), {std::string("nowhere"), at(2, 31)}},
                                   {"key", at(2, 40), key}},
                        at(2, 7)};
    composition_.unresolved = recipe_.resolved = Value{
        Value::Map{{"schema", at(1, 1), {std::int64_t{1}, at(1, 9)}}, {"data", at(2, 1), options}},
        at(1, 1)};
    composition_.typed = {"data.api_key=***", "seed=1"};
    recipe_.name = graph_.recipe = "fake";
    graph_.device = "cpu";
    graph_.nodes.push_back({"data", "data", "data.fake", options, "/data", {}, 1});
  }

  ExitCode run_script(std::vector<std::string> acts) {
    results_.str("");
    err_.str("");
    RunRequest request{composition_, recipe_, graph_, sources_};
    request.trained = trained_;
    request.source = source_;
    request.resume = resume_;
    request.device = device_ ? &*device_ : nullptr;
    request.inputs = inputs_;
    request.check_environment = check_environment_;
    WritingStorage storage(write_);
    RunSurroundings surroundings{.worker = {RETORT_FAKE_WORKER, std::move(acts)},
                                 .results = results_,
                                 .err = err_,
                                 .storage = storage};
    surroundings.working_folder = folder_.path();
    surroundings.next_gpu = next_gpu_;
    surroundings.before_flush = before_flush_;
    if (json_) {
      surroundings.on_end = [&](const nlohmann::ordered_json& summary, const Diagnostics&) {
        ended_ = summary;
      };
    }
    surroundings.display.verbosity = verbosity_;
    surroundings.worker.log = log_level_;
    surroundings.worker.variables = variables_;
    surroundings.worker.is_hosted = is_hosted_;
    if (wall_clock_) surroundings.wall_clock = wall_clock_;
    if (clock_) surroundings.display.clock = clock_;
    return run(request, surroundings);
  }
  nlohmann::json summary() const { return nlohmann::json::parse(folder_.read("run/summary.json")); }
  /// Gives the stage of the recipe a memory policy that allows restarts.
  void allow_restarts() {
    const Value options{Value::Map{{"max_retries", {}, {std::string("auto"), {}}},
                                   {"on_oom", {}, {Value::List{{std::string("replan"), {}}}, {}}}},
                        {}};
    graph_.nodes.push_back({"memory", "memory", "memory.policy", options, "/memory", {}, 1});
  }
  bool wrote_nothing() const { return std::filesystem::is_empty(folder_.path()); }

  TemporaryFolder folder_;
  Sources sources_;
  Composition composition_;
  Recipe recipe_ = {.run_dir = "run"};
  Graph graph_;
  CheckpointSources trained_;
  std::string source_, resume_;
  std::optional<OwnDevice> device_;
  NextGpu next_gpu_;
  std::vector<InputPath> inputs_;
  std::function<Diagnostics(const nlohmann::ordered_json&)> check_environment_;
  std::function<void()> before_flush_;
  std::vector<std::string> variables_;
  WritingStorage::Write write_ = ::write;
  bool json_ = false, is_hosted_ = false;
  nlohmann::json ended_;
  Verbosity verbosity_ = Verbosity::kNormal;
  LogLevel log_level_ = LogLevel::kInfo;
  std::function<std::chrono::system_clock::time_point()> wall_clock_;
  std::function<std::chrono::steady_clock::time_point()> clock_;
  std::ostringstream results_, err_;
};

}  // namespace runner
