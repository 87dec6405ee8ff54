#include "runner/parent/run/run.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/record/recorded_run.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/program.h"
#include "tests/support/system_calls.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
namespace fs = std::filesystem;

/// Runs a recipe of one stage whose worker is a script.
class RunTest : public testing::Test {
 protected:
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
  void allow_restarts();
  bool wrote_nothing() const { return fs::is_empty(folder_.path()); }

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

const std::string kStarted = R"(line:{"event":"node_started","node":"data"})";
const std::string kFinished =
    R"(line:{"event":"node_finished","node":"data","seconds":1.5,"peak_memory_bytes":4096})";
const std::string kMissing =
    R"(line:{"event":"diagnostic","severity":"error","code":"E0601","message":"no folder 'nowhere'","pointer":"/data/root","help":"make it","notes":[]})";

std::string metric(const std::string& value, int step) {
  return R"(line:{"event":"metric","node":"data","name":"loss","value":)" + value + R"(,"step":)" +
         std::to_string(step) + "}";
}

TEST_F(RunTest, FinishedRunLeavesACompleteRecord) {
  EXPECT_EQ(run_script({"hello", "err:early chatter", "read", "ready", "read", kStarted,
                        metric("0.5", 1), metric("\"nan\"", 2),
                        R"(line:{"event":"say","node":"data","line":"all is well"})", "out:chatter",
                        kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(results_.str(), (folder_.path() / "run").string() + "\n");
  EXPECT_EQ(err_.str(), "data: all is well\n");
  const auto json = summary();
  EXPECT_EQ(json["status"], "finished");
  EXPECT_EQ(json["exit"], 0);
  EXPECT_EQ(json["nodes"].dump(),
            R"([{"id":"data","peak_memory_bytes":4096,"seconds":1.5,"status":"finished"}])");
  EXPECT_EQ(json["metrics"].dump(), R"({"data":{"loss":{"step":2,"value":"nan"}}})");
  EXPECT_THAT(folder_.read("run/metrics.jsonl"),
              HasSubstr(R"({"node":"data","name":"loss","value":0.5,"step":1,"time":)"));
  for (const char* line :
       {"  info   early chatter\n", "  info   data: started\n", "  info   data: all is well\n",
        "  info   chatter\n",
        "  info   data: finished in 0:00:02, peak memory of its tensors 4.0 KiB\n",
        "  info   finished\n"}) {
    EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr(line));
  }
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  EXPECT_EQ(environment["threads"], 2);
  EXPECT_EQ(environment["device"], "cpu");
  EXPECT_EQ(environment["versions"]["libtorch"], "2.11.0");
  EXPECT_EQ(environment["determinism"], "strict");
}

TEST_F(RunTest, EarlyInterruptedResumeShowsHowToContinue) {
  resume_ = (folder_.path() / "run").string();
  EXPECT_EQ(run_script({"hello", "read", "finished:130"}), ExitCode::kInterrupted);
  EXPECT_EQ(err_.str(), "interrupted: continue with `retort resume " + resume_ + "`\n");
  EXPECT_EQ(results_.str(), "");
}

TEST_F(RunTest, ClockThatMovesBackwardIsHarmless) {
  // Each reading of the clock is an hour before the previous one; a second run starts in the same
  // second as the first.
  const auto start = std::chrono::system_clock::from_time_t(1'800'000'000);
  auto now = start;
  wall_clock_ = [&] { return now -= std::chrono::hours(1); };
  recipe_.run_dir = "";
  std::vector<std::string> folders;
  for (int run = 0; run < 2; ++run) {
    now = start;
    ASSERT_EQ(run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1),
                          metric("0.25", 2), kFinished, "finished:0"}),
              ExitCode::kDone);
    folders.push_back(results_.str().substr(0, results_.str().size() - 1));
  }
  EXPECT_NE(folders[0], folders[1]);
  for (const std::string& folder : folders) {
    EXPECT_EQ(nlohmann::json::parse(std::ifstream(fs::path(folder) / "summary.json"))["status"],
              "finished");
    double last = 0;
    int lines = 0;
    std::ifstream metrics(fs::path(folder) / "metrics.jsonl");
    for (std::string line; std::getline(metrics, line); ++lines) {
      const double time = nlohmann::json::parse(line)["time"];
      EXPECT_GE(time, last);
      last = time;
    }
    EXPECT_EQ(lines, 2);
  }
}

TEST_F(RunTest, MetricsAreOnTheDiskBeforeTheFlushIsConfirmed) {
  const WatchedCalls calls;
  run_script({"hello", "read", "ready", "read", kStarted, metric("1", 1),
              R"(line:{"event":"flush","node":"data"})", "echo", "finished:0"});
  EXPECT_THAT(err_.str(), HasSubstr(R"(fake: {"flushed":true})"));
  EXPECT_THAT(calls.flushed(), testing::Contains((folder_.path() / "run/metrics.jsonl").string()));
}

/// Gives the stage of the recipe a memory policy that allows restarts.
void RunTest::allow_restarts() {
  const Value options{Value::Map{{"max_retries", {}, {std::string("auto"), {}}},
                                 {"on_oom", {}, {Value::List{{std::string("replan"), {}}}, {}}}},
                      {}};
  graph_.nodes.push_back({"memory", "memory", "memory.policy", options, "/memory", {}, 1});
}

const std::string kFlush = R"(line:{"event":"flush","node":"data"})";

TEST_F(RunTest, KilledWorkerIsReplaced) {
  allow_restarts();
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, "new|" + metric("0.5", 1),
                        "new|" + kFlush, "new|read", "new|" + metric("0.25", 2), "new|die:9",
                        R"(again|line:{"event":"resumed","node":"data","metrics":1,"step":1})",
                        "again|" + metric("0.125", 2), kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(err_.str(),
            "data: the worker was killed: continues from the last checkpoint, restart 1\n"
            "recovered once: 1 x killed (recoveries in summary.json)\n");
  const auto json = summary();
  EXPECT_EQ(json["status"], "finished");
  EXPECT_EQ(json["metrics"].dump(), R"({"data":{"loss":{"step":2,"value":0.125}}})");
  EXPECT_EQ(
      json["recoveries"].dump(),
      R"([{"cause":"killed","from":"cpu","limit":0,"node":"data","phase":"","step":0,"taken":0,"to":"cpu","tried":0}])");
  EXPECT_THAT(folder_.read("run/metrics.jsonl"), Not(HasSubstr("0.25")))
      << "it was measured after the last save";
  EXPECT_THAT(folder_.read("run/metrics.jsonl"), HasSubstr("0.125"));
  EXPECT_THAT(folder_.read("run/log.txt"),
              HasSubstr("data: the worker was killed: continues from the last checkpoint"));
}

/// Runs with a clock that advances by ten seconds whenever a worker says so.
class RunTimeTest : public RunTest {
 protected:
  RunTimeTest() {
    verbosity_ = Verbosity::kQuiet;
    clock_ = [this] { return now_; };
    write_ = [this](int out, const char* data, std::size_t size) {
      const std::string_view text(data, size);
      const std::size_t said =
          text.find("ten seconds ");  // in the log, which a resumed run rewrites
      if (said != text.npos &&
          passed_.insert(std::string(text.substr(said, text.find('\n', said) - said))).second)
        now_ += std::chrono::seconds(10);
      if (first_summary_.empty() && text.find("\"status\": \"running\"") != text.npos)
        first_summary_ = text;
      return ::write(out, data, size);
    };
  }
  ExitCode resume(std::vector<std::string> acts) {
    resume_ = (folder_.path() / "run").string();
    now_ += std::chrono::hours(1);
    first_summary_.clear();
    return run_script(std::move(acts));
  }
  std::string ten_seconds() {
    return R"(line:{"event":"say","node":"data","line":"ten seconds )" + std::to_string(++asked_) +
           "\"}";
  }
  double node_seconds() const { return summary()["nodes"][0].value("seconds", 0.0); }

  std::chrono::steady_clock::time_point now_;
  std::set<std::string> passed_;
  int asked_ = 0;
  std::string first_summary_;
};

TEST_F(RunTimeTest, NodeTimeIncludesKilledWorkers) {
  allow_restarts();
  run_script({"hello", "read", "ready", "read", kStarted, "new|" + metric("0.5", 1),
              "new|" + kFlush, "new|read", "new|" + ten_seconds(), "new|die:9",
              R"(again|line:{"event":"resumed","node":"data","metrics":1,"step":1})", kFinished,
              "finished:0"});
  EXPECT_EQ(node_seconds(), 11.5);
  EXPECT_EQ(summary()["seconds"], 10);
}

TEST_F(RunTimeTest, ResumedRunIncludesAllAttempts) {
  run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1), ten_seconds(),
              ten_seconds(), "finished:75"});
  EXPECT_EQ(summary()["seconds"], 20);
  EXPECT_EQ(node_seconds(), 20);
  resume({"hello", "read", "ready", "read", kStarted, ten_seconds(), "finished:75"});
  EXPECT_EQ(node_seconds(), 30);
  EXPECT_EQ(resume({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(summary()["seconds"], 30);
  EXPECT_EQ(node_seconds(), 31.5);
  resume({"hello", "read", "ready", "read", kFinished, "finished:0"});
  EXPECT_EQ(node_seconds(), 31.5) << "it is told of again, and was not at work";
}

TEST_F(RunTimeTest, KilledRunCountsUntilItsLastMetric) {
  const auto kill = [&] {  // restores the first summary
    folder_.write("run/summary.json", first_summary_);
  };
  run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1), ten_seconds(),
              metric("0.25", 2), ten_seconds(), "finished:75"});
  kill();
  resume({"hello", "read", "ready", "read", kStarted,
          R"(line:{"event":"resumed","node":"data","metrics":0,"step":0})", ten_seconds(),
          "finished:75"});
  EXPECT_EQ(summary()["seconds"], 20);
  kill();  // before its first metric; the earlier metrics are dropped
  resume({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  EXPECT_EQ(summary()["seconds"], 10);
  EXPECT_EQ(node_seconds(), 11.5);
}

TEST_F(RunTimeTest, ResumedRunKeepsErrorsOfEarlierAttempts) {
  run_script({"hello", "read", "ready", "read", kStarted, kMissing, "finished:66"});
  EXPECT_FALSE(summary().contains("earlier"));
  resume({"hello", "read", "ready", "read", kStarted, "finished:75"});
  folder_.write("run/summary.json", first_summary_);  // as if it had been killed
  resume({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  EXPECT_EQ(summary()["status"], "finished");
  EXPECT_EQ(summary()["diagnostics"].size(), 0u);
  const auto earlier = summary()["earlier"];
  ASSERT_EQ(earlier.size(), 2u);
  EXPECT_EQ(earlier[0]["status"], "failed");
  ASSERT_EQ(earlier[0]["diagnostics"].size(), 1u);
  EXPECT_EQ(earlier[0]["diagnostics"][0]["code"], "E0601");
  EXPECT_EQ(earlier[0]["diagnostics"][0]["message"], "no folder 'nowhere'");
  EXPECT_EQ(earlier[1]["status"], "interrupted");
  EXPECT_EQ(earlier[1]["diagnostics"].size(), 0u);
}

TEST_F(RunTest, ChangedInputsOrCheckpointsPreventARestart) {
  allow_restarts();
  const std::vector<std::string> killed = {"hello",   "read",          "ready",    "read",
                                           kStarted,  "new|" + kFlush, "new|read", "new|die:9",
                                           kFinished, "finished:0"};
  folder_.write("photos/a.jpg", "one");
  inputs_ = {{"/data/root", folder_.path() / "photos"}};
  before_flush_ = [&] { folder_.write("photos/a.jpg", "another"); };
  EXPECT_EQ(run_script(killed), ExitCode::kBadRecipe);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0807]: since the run started, the input /data/root was "
                                    "1 file with 3 B and is now "));
  EXPECT_THAT(err_.str(), HasSubstr("continue with `retort resume"));
  EXPECT_EQ(summary()["status"], "failed");

  fs::remove_all(folder_.path() / "run");
  graph_.nodes.push_back({"train", "train", "train.test", {}, "/train", {}, 3});
  graph_.recipe_hash = "own";
  before_flush_ = [&] {
    folder_.write("run/nodes/train/checkpoints/step-00000007/state.json",
                  R"({"recipe_hash": "another", "seed": 3})");
  };
  EXPECT_EQ(run_script(killed), ExitCode::kBadRecipe);
  EXPECT_THAT(err_.str(), HasSubstr("step-00000007' belongs to another training run"));
}

TEST_F(RunTest, InputsThatChangeDuringTheRunFailItAndMarkItsRecord) {
  const std::vector<std::string> acts = {"hello", "read", "ready",   "read",      kStarted,
                                         kFlush,  "read", kFinished, "finished:0"};
  folder_.write("photos/a.jpg", "one");
  inputs_ = {{"/data/root", folder_.path() / "photos"}};
  before_flush_ = [&] { folder_.write("photos/b.jpg", "new"); };
  EXPECT_EQ(run_script(acts), ExitCode::kDone);
  EXPECT_THAT(err_.str(), HasSubstr("warning[E0807]: the input /data/root was 1 file with 3 B and "
                                    "is now 2 files with 6 B: files were added during the run"));
  EXPECT_EQ(summary()["status"], "finished");

  fs::remove_all(folder_.path() / "run");
  before_flush_ = [&] { folder_.write("photos/a.jpg", "another"); };
  EXPECT_EQ(run_script(acts), ExitCode::kBadRecipe);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0807]: the input /data/root was 2 files with 6 B and "
                                    "is now 2 files with 10 B: it was changed during the run"));
  EXPECT_EQ(summary()["status"], "failed");
  EXPECT_EQ(summary()["exit"], 78);
  EXPECT_EQ(nlohmann::json::parse(
                folder_.read("run/.retort/environment.json"))["inputs"]["/data/root"]["changed"],
            true);
}

TEST_F(RunTest, PythonCodeIsPartOfTheRecord) {
  const std::string folder = folder_.path().string();
  folder_.write("net.py", "a = 1\n");
  folder_.write("other/net.py", "b = 2\n");
  graph_.python.entries = {{"/data/entry", folder + "/net.py", "12", "a = 1\n"},
                           {"/other/entry", folder + "/other/net.py", "34", "b = 2\n"},
                           {"/third/entry", folder + "/net.py", "12", "a = 1\n"}};
  graph_.python.files = {
      {folder + "/helper.py", "56"}, {folder + "/net.py", "12"}, {folder + "/other/net.py", "34"}};
  is_hosted_ = true;
  before_flush_ = [&] { folder_.write("net.py", "edited while the run is at work"); };
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kFlush, "read", kFinished,
                        "finished:0"}),
            ExitCode::kDone)
      << err_.str();
  EXPECT_EQ(folder_.read("run/.retort/python/net.py"), "a = 1\n");
  EXPECT_EQ(folder_.read("run/.retort/python/net-2.py"), "b = 2\n");
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  const auto& python = environment["python"];
  EXPECT_EQ(python["interpreter"], RETORT_FAKE_WORKER);
  EXPECT_EQ(
      python["entries"]["/other/entry"],
      (nlohmann::json{{"file", folder + "/other/net.py"}, {"sha256", "34"}, {"copy", "net-2.py"}}));
  EXPECT_EQ(python["entries"]["/third/entry"]["copy"], "net.py");
  EXPECT_EQ(python["trusted"].size(), 3u);
  EXPECT_EQ(environment["inputs"]["/data/entry"]["files"], 1);
}

TEST_F(RunTest, CommandsAtTheEndFindACompleteRecord) {
  const std::string said = (folder_.path() / "said").string();
  const auto word = [](const std::string& text) { return Value{text, {}}; };
  const auto command = [&](const std::string& script) {
    return Value{
        Value::List{Value{Value::List{word("sh"), word("-c"), word(script), word(said)}, {}}}, {}};
  };
  Value hooks{Value::Map{}, {}};
  hooks.map()->push_back(
      {"after_run",
       {},
       command("cat \"${0%said}run/summary.json\" >/dev/null || exit 1; echo run >>\"$0\"")});
  hooks.map()->push_back({"on_failure", {}, command("echo failure >>\"$0\"; exit 3")});
  hooks.map()->push_back({"after_validation", {}, command("echo validation >>\"$0\"")});
  recipe_.resolved.map()->push_back({"hooks", {}, hooks});
  const std::string measured =
      R"(line:{"event":"metric","node":"data","name":"validation/loss","value":1,"step":1})";
  EXPECT_EQ(
      run_script({"hello", "read", "ready", "read", kStarted, measured, kFinished, "finished:0"}),
      ExitCode::kDone);
  EXPECT_EQ(folder_.read("said"), "validation\nrun\n");
  EXPECT_EQ(err_.str(), "");

  fs::remove_all(folder_ / "run");
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kMissing, "finished:66"}),
            ExitCode::kMissingInput);
  EXPECT_EQ(folder_.read("said"), "validation\nrun\nfailure\n");
  EXPECT_THAT(err_.str(),
              HasSubstr("warning[E0716]: the command 'sh' of hooks.on_failure exited with code 3"));

  fs::remove_all(folder_ / "run");
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, "finished:130"}),
            ExitCode::kInterrupted);
  trained_["data"] = {};
  source_ = "earlier";
  fs::remove_all(folder_ / "run");
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(folder_.read("said"), "validation\nrun\nfailure\n")
      << "neither of a run that was stopped, nor of an evaluation";
}

TEST_F(RunTest, RunWithoutPythonRecordsNoPythonCode) {
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_FALSE(fs::exists(folder_ / "run/.retort/python"));
  EXPECT_FALSE(
      nlohmann::json::parse(folder_.read("run/.retort/environment.json")).contains("python"));
}

TEST_F(RunTest, InputsThatTheRunCreatesAreRecorded) {
  inputs_ = {{"/data/root", folder_.path() / "made"}};
  before_flush_ = [&] { folder_.write("made/a.jpg", "one"); };
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kFlush, "read", kFinished,
                        "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(err_.str(), "");
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  EXPECT_EQ(environment["inputs"]["/data/root"]["files"], 1);
  EXPECT_EQ(environment["inputs"]["/data/root"]["made"], true);
}

TEST_F(RunTest, ResumedEnvironmentIsCheckedBeforeAnythingIsWritten) {
  run_script({"hello", "read", "ready", "read", kStarted, "finished:1"});
  resume_ = (folder_.path() / "run").string();
  const std::string before = folder_.read("run/log.txt");
  check_environment_ = [](const nlohmann::ordered_json& environment) {
    EXPECT_EQ(environment["device"], "cpu");
    return Diagnostics{{ErrorCode::kChangedRun, {}, "", "it is another world", "go back"}};
  };
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", "finished:0"}), ExitCode::kBadRecipe);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0807]: it is another world"));
  EXPECT_EQ(folder_.read("run/log.txt"), before);
  EXPECT_FALSE(fs::exists(folder_.path() / "run/.retort/resume-1"));
}

TEST_F(RunTest, EarlierRecoveriesStayInTheSummary) {
  const std::string recovered =
      R"(line:{"event":"recovered","node":"data","cause":"out of memory","phase":"backward","step":3,"tried":4,"taken":60,"limit":64,"from":"micro_batch 8","to":"micro_batch 4"})";
  run_script({"hello", "read", "ready", "read", kStarted, recovered, "finished:1"});
  resume_ = (folder_.path() / "run").string();
  run_script({"hello", "read", "ready", "read", kStarted, recovered, kFinished, "finished:0"});
  EXPECT_EQ(summary()["recoveries"].size(), 2);
  EXPECT_EQ(summary()["recoveries"][0], summary()["recoveries"][1]);
  EXPECT_EQ(summary()["recoveries"][0]["to"], "micro_batch 4");
  EXPECT_THAT(err_.str(),
              HasSubstr("recovered 2 times: 2 x out of memory (recoveries in summary.json)\n"));
}

TEST_F(RunTest, MlflowWithoutAnAddressIsRejectedBeforeAnythingIsWritten) {
  recipe_.has_mlflow = true;
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kFinished, "finished:0"}),
            ExitCode::kBadRecipe);
  EXPECT_TRUE(wrote_nothing());
  EXPECT_THAT(err_.str(), HasSubstr("MLFLOW_TRACKING_URI is not set"));
}

TEST_F(RunTest, TensorBoardGetsEveryMetricOnlyIfTheRecipeAsksForIt) {
  const auto files_of_node = [&] {
    std::vector<std::string> files;
    const fs::path below = folder_.path() / "run/tensorboard/data";
    if (!fs::exists(below)) return files;
    for (const auto& entry : fs::directory_iterator(below))
      files.push_back(file_text(entry.path()));
    std::ranges::sort(files, {}, &std::string::size);
    return files;
  };
  recipe_.run_dir = "plain";
  run_script(
      {"hello", "read", "ready", "read", kStarted, metric("0.5", 1), kFinished, "finished:0"});
  EXPECT_FALSE(fs::exists(folder_.path() / "plain/tensorboard"));

  recipe_.run_dir = "run";
  recipe_.has_tensorboard = true;
  run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1), metric("0.25", 2),
              "finished:1"});
  ASSERT_THAT(files_of_node(), SizeIs(1));
  const std::string first = files_of_node()[0];
  resume_ = (folder_.path() / "run").string();
  run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1), metric("0.25", 2),
              kFinished, "finished:0"});
  ASSERT_THAT(files_of_node(), SizeIs(2));
  constexpr std::size_t kRecordAround = 16, kSession = 4;  // in addition to the time and the step
  EXPECT_EQ(files_of_node()[1].size(), first.size() + kRecordAround + 9 + 2 + kSession)
      << "the same events, and the start of a session";
}

TEST_F(RunTest, HistogramsAfterTheStepOfAResumptionAreDropped) {
  const auto histogram = [](int step) {
    return R"(line:{"event":"histogram","node":"data","name":"gradients/w","buckets":[[0,1,)" +
           std::to_string(step) + R"(]],"step":)" + std::to_string(step) + "}";
  };
  const auto lines = [&] {
    std::vector<std::string> found;
    std::istringstream file(folder_.read("run/histograms.jsonl"));
    for (std::string line; std::getline(file, line);)
      found.push_back(line.substr(0, line.find(",\"time\"")));
    return found;
  };
  recipe_.has_tensorboard = true;
  run_script({"hello", "read", "ready", "read", kStarted, histogram(1), histogram(2), histogram(3),
              "finished:75"});
  EXPECT_THAT(lines(), SizeIs(3));
  resume_ = (folder_.path() / "run").string();
  run_script({"hello", "read", "ready", "read", kStarted,
              R"(line:{"event":"resumed","node":"data","metrics":0,"step":1})", histogram(2),
              kFinished, "finished:0"});
  EXPECT_THAT(lines(),
              testing::ElementsAre(
                  R"({"node":"data","name":"gradients/w","buckets":[[0.0,1.0,1]],"step":1)",
                  R"({"node":"data","name":"gradients/w","buckets":[[0.0,1.0,2]],"step":2)"));
}

TEST_F(RunTest, WorkerWithALostDeviceIsReplaced) {
  allow_restarts();
  EXPECT_EQ(run_script({"hello", "read", "ready:cuda:0", "read", kStarted, "new|finished:81",
                        "new|exit:81", kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(err_.str(),
            "data: the device 'cuda:0' failed: continues from the last checkpoint, restart 1\n"
            "recovered once: 1 x device lost (recoveries in summary.json)\n");
}

TEST_F(RunTest, WorkersWithoutProgressEndTheRun) {
  allow_restarts();
  EXPECT_EQ(
      run_script({"hello", "read", "ready:cuda:0", "read", kStarted, "finished:81", "exit:81"}),
      ExitCode::kDeviceUnavailable);
  EXPECT_THAT(
      err_.str(),
      HasSubstr(
          "error[E0712]: the device 'cuda:0' failed and cannot be used again by the same process"));
  EXPECT_THAT(
      err_.str(),
      HasSubstr("help: it failed again after the run was restarted: try a different device"));
  EXPECT_EQ(summary()["status"], "failed");
  EXPECT_EQ(summary()["exit"], 69);
}

TEST_F(RunTest, WorkersAreNotRestartedWithoutAPolicy) {
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, "die:9"}),
            ExitCode::kRunFailed);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0704]: the worker was killed by signal 9 (SIGKILL)"));
  EXPECT_FALSE(summary().contains("recoveries"));
}

const std::string kStranded =
    R"(line:{"event":"stranded","node":"data","to":["gpu","cpu"],"retries":0,"error":{"severity":"error","code":"E0706","message":"out of memory","pointer":"/data","help":"use less","notes":[]},"incident":{"cause":"out of memory","phase":"backward","step":3,"tried":4,"taken":60,"limit":64,"from":"","to":""}})";

TEST_F(RunTest, NextWorkerReceivesDeviceFolderAndRestarts) {
  graph_.device = "cuda";
  run_script({"hello", "echo", "new|ready:cuda:0", "new|read", "new|" + kStranded,
              "new|finished:80", "new|exit:80", "ready", "read", kStarted, kFinished,
              "finished:0"});
  EXPECT_THAT(err_.str(), HasSubstr(R"("device":"cpu",)"));
  EXPECT_THAT(err_.str(), HasSubstr(R"("resume":true,)"));
  EXPECT_THAT(err_.str(), HasSubstr(R"("folder":")" + (folder_.path() / "run").string() + '"'));
  EXPECT_THAT(err_.str(), HasSubstr(R"("restarts":{"plans":0,"retries":0,"has_moved":true})"));
  EXPECT_THAT(err_.str(), HasSubstr("data: continues on cpu instead of cuda:0: out of memory; the "
                                    "CPU is slower, and its results differ in their last bits\n"));
  EXPECT_EQ(summary()["status"], "finished");
  EXPECT_EQ(nlohmann::json::parse(folder_.read("run/.retort/environment.json"))["device"], "cpu");
}

/// The GPU `index`, held by a lock in the folder `locks`.
OwnDevice held_gpu(int index, const LockFolder& locks) {
  const std::string uuid = "GPU-" + std::to_string(index);
  OwnDevice own{.taken = {.select = "cuda:0",
                          .device = DeviceFacts{.index = index, .uuid = uuid, .name = "L4"},
                          .is_only_visible = true,
                          .lock = DeviceLock::take(locks, uuid)},
                .record = {{"asked", "auto"}, {"index", index}, {"uuid", uuid}}};
  EXPECT_TRUE(own.taken.lock) << uuid;
  return own;
}

TEST_F(RunTest, StrandedRunReleasesItsGpuAndUsesAnother) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  graph_.device = "cuda:0";
  variables_ = {"CUDA_VISIBLE_DEVICES=GPU-0"};
  std::vector<std::string> left_then;
  next_gpu_ = [&](const std::vector<std::string>& left) -> Result<OwnDevice> {
    left_then = left;
    EXPECT_TRUE(DeviceLock::take(locks, "GPU-0")) << "nobody waits for what is used no longer";
    return held_gpu(1, locks);
  };
  run_script({"hello", "echo", "variable:CUDA_VISIBLE_DEVICES", "new|ready:cuda:0", "new|read",
              "new|" + kStranded, "new|finished:80", "new|exit:80", "ready:cuda:0", "read",
              kStarted, kFinished, "finished:0"});
  EXPECT_THAT(left_then, testing::ElementsAre("GPU-0"));
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-0"));
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-1")) << "the run is over";
  EXPECT_THAT(err_.str(), HasSubstr("CUDA_VISIBLE_DEVICES='GPU-0'"));
  EXPECT_THAT(err_.str(), HasSubstr("CUDA_VISIBLE_DEVICES='GPU-1'"));
  EXPECT_THAT(err_.str(),
              HasSubstr("data: continues on GPU 1 (L4) instead of GPU 0 (L4): out of memory\n"));
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  EXPECT_EQ(environment["device_choice"]["uuid"], "GPU-1");
  EXPECT_EQ(environment["variables"]["CUDA_VISIBLE_DEVICES"], "GPU-1");
  EXPECT_EQ(summary()["status"], "finished");
  const auto recoveries = summary()["recoveries"];
  ASSERT_EQ(recoveries.size(), 1);
  EXPECT_EQ(recoveries[0]["from"], "GPU 0 (L4)");
  EXPECT_EQ(recoveries[0]["to"], "GPU 1 (L4)");
  EXPECT_EQ(recoveries[0]["tried"], 4);
  EXPECT_EQ(recoveries[0]["taken"], 60);
  EXPECT_EQ(recoveries[0]["limit"], 64);
  EXPECT_EQ(recoveries[0]["cause"], "out of memory");
}

TEST_F(RunTest, GpuIsHeldWhileItsRunIsAtWork) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  int asked = 0;
  next_gpu_ = [&](const std::vector<std::string>&) -> Result<OwnDevice> {
    if (asked++ == 0) return held_gpu(1, locks);
    EXPECT_FALSE(DeviceLock::take(locks, "GPU-2"));
    EXPECT_TRUE(DeviceLock::take(locks, "GPU-1"));
    return Diagnostic{ErrorCode::kDeviceUnavailable, {}, "", "there is none", ""};
  };
  const auto other = DeviceLock::take(locks, "GPU-2");
  // The second worker is stranded as well, and the third is on the CPU.
  EXPECT_EQ(run_script({"hello", "echo", "new|ready:cuda:0", "again|ready:cuda:0", "read",
                        kStranded, "finished:80", "exit:80"}),
            ExitCode::kRunFailed);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(err_.str(), HasSubstr("continues on cpu instead of GPU 1 (L4): out of memory"));
  EXPECT_THAT(err_.str(), HasSubstr("no other GPU: there is none"));
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-1")) << "the CPU needs no GPU";
}

TEST_F(RunTest, RunThatMovesToTheCpuReleasesItsGpu) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  std::string to_cpu = kStranded;
  to_cpu.replace(to_cpu.find(R"("gpu",)"), 6, "");
  run_script({"hello", "read", "new|ready:cuda:0", "new|read", "new|" + to_cpu, "new|finished:80",
              "new|exit:80", "ready", "read", kStarted, kFinished, "finished:0"});
  EXPECT_EQ(summary()["status"], "finished");
  EXPECT_TRUE(DeviceLock::take(locks, "GPU-0"));
}

TEST_F(RunTest, SignalDuringTheWaitForAGpuEndsTheRun) {
  const LockFolder locks = *LockFolder::open(folder_.path() / "locks");
  device_ = held_gpu(0, locks);
  next_gpu_ = [&](const std::vector<std::string>&) -> Result<OwnDevice> {
    return stopped_by(SIGINT, "after a wait");
  };
  const std::vector<std::string> stranded = {kStranded, "finished:80", "exit:80"};
  std::vector<std::string> acts = {"hello", "read", "ready:cuda:0", "read", kStarted};
  acts.insert(acts.end(), stranded.begin(), stranded.end());
  EXPECT_EQ(run_script(acts), ExitCode::kInterrupted);
  EXPECT_THAT(err_.str(), HasSubstr("interrupted"));
  EXPECT_EQ(summary()["status"], "interrupted");
  recipe_.run_dir = "saved";
  device_ = held_gpu(0, locks);
  acts.insert(acts.begin() + 5, {kFlush, "read"});
  EXPECT_EQ(run_script(acts), ExitCode::kStoppedAfterSave);
  EXPECT_THAT(err_.str(), HasSubstr("interrupted: continue with `retort resume "));
}

TEST_F(RunTest, StrandedNodeWithoutADeviceIsAnError) {
  const std::string nowhere =
      R"(line:{"event":"stranded","node":"data","to":["gpu"],"retries":0,"error":{"severity":"error","code":"E0706","message":"out of memory","pointer":"/data","help":"use less","notes":[]},"incident":{"cause":"out of memory","phase":"backward","step":3,"tried":4,"taken":60,"limit":64,"from":"","to":""}})";
  EXPECT_EQ(run_script({"hello", "read", "ready:cuda:0", "read", kStarted, nowhere, "finished:80",
                        "exit:80"}),
            ExitCode::kRunFailed);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0706]: out of memory"));
  EXPECT_THAT(err_.str(), HasSubstr("help: use less"));
  EXPECT_EQ(summary()["exit"], 1);
}

TEST_F(RunTest, RunAtWorkIsNotWrittenTo) {
  const fs::path path = folder_.path() / "run";
  run_script({"hello", "read", "ready", "read", kStarted, "finished:0"});
  const auto worker = RunLock::join(path);
  ASSERT_TRUE(worker);
  const std::string before = folder_.read("run/log.txt");
  resume_ = path.string();
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", "finished:0"}),
            info(ErrorCode::kRunBusy).exit);
  EXPECT_THAT(err_.str(), HasSubstr("is still running"));
  EXPECT_EQ(folder_.read("run/log.txt"), before);
}

TEST_F(RunTest, TrainingRecordsTheMetricsOfEachEpoch) {
  graph_.nodes.push_back(
      {"train", "train", "train.fake", graph_.nodes[0].options, "/train", {}, 1});
  const auto measured = [](const std::string& name, const std::string& value, int step) {
    return R"(line:{"event":"metric","node":"train","name":")" + name + R"(","value":)" + value +
           R"(,"step":)" + std::to_string(step) + "}";
  };
  const fs::path file = "run/nodes/train/training_metrics.json";
  bool was_there_after_the_first = false;
  write_ = [&](int out, const char* data, std::size_t size) {
    if (std::string_view(data, size).find("second epoch") != std::string_view::npos) {
      was_there_after_the_first =
          nlohmann::json::parse(folder_.read(file)).at("train_losses").size() == 1;
    }
    return ::write(out, data, size);
  };
  run_script({"hello", "read", "ready", "read", R"(line:{"event":"node_started","node":"train"})",
              "folder:" + (folder_.path() / "run/nodes/train").string(),
              measured("train/loss", "3", 1), measured("train/epoch_loss", "2", 4),
              measured("validation/loss", "1.5", 4), measured("validation/accuracy", "0.5", 4),
              R"(line:{"event":"say","node":"train","line":"epoch"})",
              R"(line:{"event":"say","node":"train","line":"second epoch"})",
              measured("train/epoch_loss", "1", 8), "finished:0"});
  EXPECT_TRUE(was_there_after_the_first);
  const auto json = nlohmann::json::parse(folder_.read(file));
  EXPECT_EQ(json["train_losses"].dump(), "[2.0,1.0]");
  EXPECT_EQ(json["val_losses"].dump(), "[1.5,null]");
  EXPECT_EQ(json["val_accuracies"].dump(), "[0.5,null]");
  EXPECT_EQ(json["epoch_times"].size(), 2u);
}

TEST_F(RunTest, RecordHoldsTheChosenGpu) {
  device_.emplace();
  device_->record = {{"asked", "auto"}, {"uuid", "GPU-1"}};
  variables_ = {"CUDA_VISIBLE_DEVICES=GPU-1"};
  run_script({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  EXPECT_EQ(environment["device_choice"].dump(), R"({"asked":"auto","uuid":"GPU-1"})");
  EXPECT_EQ(environment["variables"]["CUDA_VISIBLE_DEVICES"], "GPU-1");
}

TEST_F(RunTest, RecordHoldsTheResolvedDeviceAndVariables) {
  graph_.device = "auto";
  graph_.determinism = Determinism::kWarn;
  run_script(
      {"hello", "read",
       R"(line:{"event":"ready","device":"cuda:1","threads":3,"variables":{"CUBLAS_WORKSPACE_CONFIG":":4096:8"}})",
       "read", kStarted, kFinished, "finished:0"});
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  EXPECT_EQ(environment["variables"]["CUBLAS_WORKSPACE_CONFIG"], ":4096:8");
  EXPECT_EQ(environment["determinism"], "warn");
  const auto graph = nlohmann::json::parse(folder_.read("run/.retort/graph.json"));
  EXPECT_EQ(graph["threads"], 3);
  EXPECT_EQ(graph["device"], "cuda:1");
  EXPECT_EQ(graph["determinism"], "warn");
}

TEST_F(RunTest, SecretsReachTheWorkerButNoRecord) {
  run_script(
      {"hello", "told:hunter2", "ready", "read", kStarted,
       R"(line:{"event":"say","node":"data","line":"making pictures in 'hunter2'"})", "out:hunter2",
       R"(line:{"event":"diagnostic","severity":"error","code":"E0601","message":"no folder 'hunter2/a'",)"
       R"("pointer":"/data/root","help":"make hunter2","notes":[{"message":"hunter2 it was"}]})",
       "finished:66"});
  EXPECT_THAT(err_.str(), HasSubstr("fake: is told\n"));
  EXPECT_THAT(err_.str(), HasSubstr("data: making pictures in '${oc.env:API_KEY}'\n"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("hunter2")))
      << "a terminal's text is recorded too, by whoever redirects it";
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr("making pictures in '${oc.env:API_KEY}'"));
  for (const auto& file : fs::recursive_directory_iterator(folder_.path())) {
    if (!file.is_regular_file()) continue;
    EXPECT_THAT(folder_.read(file.path()), Not(HasSubstr("hunter2"))) << file.path();
  }
  EXPECT_THAT(folder_.read("run/.retort/graph.json"), HasSubstr("${oc.env:API_KEY}"));
  EXPECT_EQ(folder_.read("run/.retort/overrides.yaml"), "- data.api_key=***\n- seed=1\n");
}

TEST_F(RunTest, UnrecordedSecretMustBeEnteredAgain) {
  graph_.nodes.at(0).options = Value{Value::List{{std::string("***"), {}}}, {}};
  EXPECT_EQ(run_script({"hello", "read", "finished:0"}), ExitCode::kBadRecipe);
  EXPECT_THAT(
      err_.str(),
      HasSubstr("error[E0213]: this is a secret, which the record does not store [/data/0]"));
  EXPECT_THAT(err_.str(), HasSubstr("help: enter it again as an override"));
  EXPECT_FALSE(fs::exists(folder_.path() / "run"));
}

TEST_F(RunTest, ReusedNodeIsReportedAndRecorded) {
  run_script({"hello", "echo", "ready", "read", kStarted,
              R"(line:{"event":"reused","node":"data","run":"/a/run"})", kFinished, "finished:0"});
  EXPECT_THAT(err_.str(), HasSubstr(R"("reuse":"cacheable","index":"")"));
  EXPECT_THAT(err_.str(), HasSubstr("data: reused from /a/run"));
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr("  info   data: reused from /a/run\n"));
  EXPECT_EQ(
      summary()["nodes"].dump(),
      R"([{"id":"data","peak_memory_bytes":4096,"reused_from":"/a/run","seconds":1.5,"status":"finished"}])");
}

TEST_F(RunTest, EvaluationRecordsTheSourceOfItsWeights) {
  run_script({"hello", "read", "ready", "read", "finished:0"});
  EXPECT_FALSE(fs::exists(folder_.path() / "run/.retort/source.json"));
  recipe_.run_dir = "evaluation";
  trained_ = {{"train", {"/a/run/nodes/train/checkpoints", CheckpointSource::Choice::kKept}}};
  source_ = "/a/b/../run";
  run_script({"hello", "echo", "ready", "read", "finished:0"});
  EXPECT_THAT(
      err_.str(),
      HasSubstr(
          R"("checkpoints":{"train":{"folder":"/a/run/nodes/train/checkpoints","choice":"kept"}})"));
  EXPECT_EQ(
      nlohmann::json::parse(folder_.read("evaluation/.retort/source.json")).dump(),
      R"({"checkpoints":{"train":{"choice":"kept","folder":"/a/run/nodes/train/checkpoints"}},"run":"/a/run","schema":1})");
}

TEST_F(RunTest, EarlyErrorHasALocationAndWritesNothing) {
  EXPECT_EQ(run_script({"hello", "read", kMissing, "finished:66"}), ExitCode::kMissingInput);
  EXPECT_EQ(err_.str(),
            "a.yaml:2:31: error[E0601]: no folder 'nowhere' [/data/root]\n"
            "  2 | data: {kind: data.fake, root: nowhere, key: *}\n"
            "    |                               ^\n"
            "  help: make it\n");
  EXPECT_EQ(results_.str(), "");
  EXPECT_TRUE(wrote_nothing());
}

TEST_F(RunTest, FailureWhileRunningIsInTheSummary) {
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kMissing, "finished:66"}),
            ExitCode::kMissingInput);
  EXPECT_EQ(summary()["status"], "failed");
  EXPECT_EQ(summary()["exit"], 66);
  EXPECT_EQ(summary()["nodes"][0]["status"], "running");
  EXPECT_EQ(results_.str(), "");
  EXPECT_THAT(err_.str(),
              testing::EndsWith("the record is in " + (folder_.path() / "run").string() + "\n"));
  EXPECT_EQ(summary()["diagnostics"][0]["line"], 2);
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr("  error  error[E0601]: no folder 'nowhere'"));
}

TEST_F(RunTest, ErrorWithoutAnExitCodeIsNotSuccess) {
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kMissing, "finished:0"}),
            ExitCode::kMissingInput);
  EXPECT_EQ(summary()["status"], "failed");
}

TEST_F(RunTest, DeadWorkerIsRecordedInTheFolder) {
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1),
                        "err:about to go", "die:9"}),
            ExitCode::kRunFailed);
  EXPECT_EQ(err_.str(),
            "error[E0704]: the worker was killed by signal 9 (SIGKILL)\n"
            "  help: the operating system often does this when memory runs out (see `dmesg`): use "
            "a smaller batch, or more memory\n"
            "  note: it printed: about to go\n"
            "the record is in " +
                (folder_.path() / "run").string() + "\n");
  EXPECT_EQ(summary()["status"], "worker died");
  EXPECT_EQ(summary()["signal"], 9);
  EXPECT_EQ(summary()["exit"], 1);
  EXPECT_EQ(summary()["metrics"]["data"]["loss"]["value"], 0.5);
}

TEST_F(RunTest, WorkerThatDiesBeforeTheStartWritesNothing) {
  EXPECT_EQ(run_script({"err:cannot load libtorch", "exit:127"}), ExitCode::kRunFailed);
  EXPECT_EQ(err_.str(),
            "error[E0704]: the worker exited with code 127 before it had finished\n"
            "  help: its libraries could not be loaded; in a virtual environment, run `pip install "
            "'" RETORT_TORCH_REQUIREMENT
            "'`\n"
            "  note: it printed: cannot load libtorch\n");
  EXPECT_TRUE(wrote_nothing());
}

TEST_F(RunTest, OccupiedFolderIsRejectedAtItsLocation) {
  fs::create_directories(folder_.path() / "run/other");
  EXPECT_EQ(run_script({"hello", "read", "ready", "forever"}), ExitCode::kCannotCreate);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0803]: '" + (folder_.path() / "run").string() +
                                    "' is not empty [/run/dir]"));
  EXPECT_FALSE(fs::exists(folder_.path() / "run/.retort"));
}

TEST_F(RunTest, SummaryIsRunningDuringTheRun) {
  const fs::path copy = folder_.path() / "copy";
  write_ = [&](int file, const char* data, std::size_t size) {
    if (std::string_view(data, size).find("data: started") != std::string_view::npos) {
      fs::copy_file(folder_.path() / "run/summary.json", copy);
    }
    return ::write(file, data, size);
  };
  run_script({"hello", "read", "ready", "read", kStarted, "finished:0"});
  EXPECT_EQ(nlohmann::json::parse(folder_.read("copy"))["status"], "running");
}

TEST_F(RunTest, FullDiskStopsTheRun) {
  bool is_full = false;
  write_ = [&](int file, const char* data, std::size_t size) -> ssize_t {
    if (std::string_view(data, size).find("\"step\":2") != std::string_view::npos) is_full = true;
    if (!is_full) return ::write(file, data, size);
    errno = ENOSPC;
    return -1;
  };
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, metric("1", 1), metric("1", 2),
                        "forever"}),
            ExitCode::kCannotWrite);
  EXPECT_EQ(err_.str(), "error[E0804]: cannot write '" +
                            (folder_.path() / "run/metrics.jsonl").string() +
                            "': No space left on device\n  help: free up space, or choose another "
                            "location with run.dir\n"
                            "the record is in " +
                            (folder_.path() / "run").string() + "\n");
}

TEST_F(RunTest, DiskThatFillsWithTheLastRecordIsNotSuccess) {
  write_ = [](int file, const char* data, std::size_t size) -> ssize_t {
    if (std::string_view(data, size).find("\"status\": \"finished\"") == std::string_view::npos)
      return ::write(file, data, size);
    errno = ENOSPC;
    return -1;
  };
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"}),
            ExitCode::kCannotWrite);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0804]: cannot write"));
}

TEST_F(RunTest, InterruptionIsReported) {
  write_ = [](int file, const char* data, std::size_t size) {
    if (std::string_view(data, size).find("data: started") != std::string_view::npos) raise(SIGINT);
    return ::write(file, data, size);
  };
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, "wait", "finished:130"}),
            ExitCode::kInterrupted);
  EXPECT_EQ(summary()["status"], "interrupted");
  EXPECT_EQ(summary()["exit"], 130);
  EXPECT_THAT(err_.str(), HasSubstr("interrupted\n"));
}

TEST_F(RunTest, JsonResultIsTheOnlyOutput) {
  json_ = true;
  run_script({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  EXPECT_EQ(ended_["status"], "finished");
  EXPECT_EQ(ended_["folder"], (folder_.path() / "run").string());
  run_script({"hello", "read", kMissing, "finished:66"});
  EXPECT_EQ(ended_["folder"], nullptr);
  EXPECT_EQ(ended_["diagnostics"][0]["code"], "E0601");
  EXPECT_EQ(results_.str(), "");
}

TEST_F(RunTest, WarningDoesNotFailAndIsShownOnceUnlessQuiet) {
  const std::string warning =
      R"(line:{"event":"diagnostic","severity":"warning","code":"E0604","message":"skipped 'a.jpg'","pointer":"","help":"","notes":[]})";
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", warning, "finished:0"}), ExitCode::kDone);
  EXPECT_EQ(err_.str(), "warning[E0604]: skipped 'a.jpg'\n");
  EXPECT_EQ(summary()["status"], "finished");
  verbosity_ = Verbosity::kQuiet;
  recipe_.run_dir = "again";
  run_script({"hello", "read", "ready", "read", warning, "finished:0"});
  EXPECT_EQ(err_.str(), "");
}

TEST_F(RunTest, LogOmitsLinesBelowItsLevel) {
  log_level_ = LogLevel::kWarn;
  const std::string warning =
      R"(line:{"event":"diagnostic","severity":"warning","code":"E0604","message":"skipped 'a.jpg'","pointer":"","help":"","notes":[]})";
  run_script({"hello", "err:early chatter", "read", "ready", "read", kStarted, warning, kFinished,
              "finished:0"});
  const std::string log = folder_.read("run/log.txt");
  EXPECT_THAT(log, MatchesRegex(" +[0-9.]+  warn   warning\\[E0604\\]: skipped 'a.jpg'\n"));
  log_level_ = LogLevel::kOff;
  recipe_.run_dir = "silent";
  run_script({"hello", "read", "ready", "read", kStarted, warning, kFinished, "finished:0"});
  EXPECT_TRUE(fs::exists(folder_ / "silent/log.txt"));
  EXPECT_EQ(folder_.read("silent/log.txt"), "");
}

TEST_F(RunTest, LinesFromBeforeTheFolderKeepTheirTime) {
  auto now = std::chrono::steady_clock::time_point();
  clock_ = [&] { return now += std::chrono::seconds(1); };
  run_script(
      {"hello", "err:early chatter", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  std::istringstream log(folder_.read("run/log.txt"));
  double before = -1;
  int lines = 0;
  for (double seconds; log >> seconds; ++lines) {
    EXPECT_GT(seconds, before);
    before = seconds;
    log.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  EXPECT_EQ(lines, 4);
}

TEST_F(RunTest, WorkersLogIsRecordedAndShownOnlyIfVerbose) {
  const std::vector<std::string> acts = {
      "hello",     R"(line:{"event":"log","level":"debug","node":"","line":"kernels: AVX2"})",
      "read",      "ready",
      "read",      R"(line:{"event":"log","level":"warn","node":"data","line":"a stage's"})",
      "finished:0"};
  EXPECT_EQ(run_script(acts), ExitCode::kDone);
  EXPECT_THAT(folder_.read("run/log.txt"), Not(HasSubstr("AVX2")));
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr("  warn   data: a stage's\n"));
  EXPECT_EQ(err_.str(), "");
  log_level_ = LogLevel::kDebug;
  verbosity_ = Verbosity::kVerbose;
  recipe_.run_dir = "again";
  EXPECT_EQ(run_script(acts), ExitCode::kDone);
  EXPECT_THAT(folder_.read("again/log.txt"), HasSubstr("  debug  kernels: AVX2\n"));
  EXPECT_EQ(err_.str(), "kernels: AVX2\ndata: a stage's\n");
}

TEST_F(RunTest, TerminalCommandsInOutputAreHarmless) {
  run_script({"hello", "read", "ready", "read", "out:\x1b[2Jbar 10%\rbar 20%", "finished:0"});
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr(" [2Jbar 10%\n"));
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr("  bar 20%\n"));
}

}  // namespace
}  // namespace runner
