// What a run writes to its record.

#include <chrono>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/record/recorded_run.h"
#include "tests/support/program.h"
#include "tests/support/run_fixture.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
namespace fs = std::filesystem;

using RunRecordTest = RunTest;

TEST_F(RunRecordTest, PythonCodeIsPartOfTheRecord) {
  const std::string folder = folder_.path().string();
  folder_.write("net.py", "a = 1\n");
  folder_.write("other/net.py", "b = 2\n");
  graph_.python.entries = {{"/data/entry", folder + "/net.py", "12", "a = 1\n"},
                           {"/other/entry", folder + "/other/net.py", "34", "b = 2\n"},
                           {"/third/entry", folder + "/net.py", "12", "a = 1\n"}};
  graph_.python.files = {
      {folder + "/helper.py", "56"}, {folder + "/net.py", "12"}, {folder + "/other/net.py", "34"}};
  is_hosted_ = true;
  before_flush_ = [&] { folder_.write("net.py", "edited during the run"); };
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

TEST_F(RunRecordTest, RunWithoutPythonRecordsNoPythonCode) {
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_FALSE(fs::exists(folder_ / "run/.retort/python"));
  EXPECT_FALSE(
      nlohmann::json::parse(folder_.read("run/.retort/environment.json")).contains("python"));
}

TEST_F(RunRecordTest, InputsThatChangeDuringTheRunFailItAndMarkItsRecord) {
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

TEST_F(RunRecordTest, InputsThatTheRunCreatesAreRecorded) {
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

TEST_F(RunRecordTest, ResumedEnvironmentIsCheckedBeforeAnythingIsWritten) {
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

TEST_F(RunRecordTest, TensorBoardGetsEveryMetricOnlyIfTheRecipeAsksForIt) {
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

TEST_F(RunRecordTest, HistogramsAfterTheResumedStepAreDropped) {
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

TEST_F(RunRecordTest, TrainingRecordsTheMetricsOfEachEpoch) {
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

TEST_F(RunRecordTest, ClockThatMovesBackwardIsHarmless) {
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

TEST_F(RunRecordTest, RecordHoldsTheChosenGpu) {
  device_.emplace();
  device_->record = {{"asked", "auto"}, {"uuid", "GPU-1"}};
  variables_ = {"CUDA_VISIBLE_DEVICES=GPU-1"};
  run_script({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  const auto environment = nlohmann::json::parse(folder_.read("run/.retort/environment.json"));
  EXPECT_EQ(environment["device_choice"].dump(), R"({"asked":"auto","uuid":"GPU-1"})");
  EXPECT_EQ(environment["variables"]["CUDA_VISIBLE_DEVICES"], "GPU-1");
}

TEST_F(RunRecordTest, RecordHoldsTheResolvedDeviceAndVariables) {
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

TEST_F(RunRecordTest, SecretsReachTheWorkerButNoRecord) {
  run_script(
      {"hello", "told:hunter2", "ready", "read", kStarted,
       R"(line:{"event":"say","node":"data","line":"making pictures in 'hunter2'"})", "out:hunter2",
       R"(line:{"event":"diagnostic","severity":"error","code":"E0601","message":"no folder 'hunter2/a'",)"
       R"("pointer":"/data/root","help":"make hunter2","notes":[{"message":"hunter2 it was"}]})",
       "finished:66"});
  EXPECT_THAT(err_.str(), HasSubstr("fake: is told\n"));
  EXPECT_THAT(err_.str(), HasSubstr("data: making pictures in '${oc.env:API_KEY}'\n"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("hunter2")))
      << "terminal output may be redirected to a file";
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr("making pictures in '${oc.env:API_KEY}'"));
  for (const auto& file : fs::recursive_directory_iterator(folder_.path())) {
    if (!file.is_regular_file()) continue;
    EXPECT_THAT(folder_.read(file.path()), Not(HasSubstr("hunter2"))) << file.path();
  }
  EXPECT_THAT(folder_.read("run/.retort/graph.json"), HasSubstr("${oc.env:API_KEY}"));
  EXPECT_EQ(folder_.read("run/.retort/overrides.yaml"), "- data.api_key=***\n- seed=1\n");
}

TEST_F(RunRecordTest, UnrecordedSecretMustBeEnteredAgain) {
  graph_.nodes.at(0).options = Value{Value::List{{std::string("***"), {}}}, {}};
  EXPECT_EQ(run_script({"hello", "read", "finished:0"}), ExitCode::kBadRecipe);
  EXPECT_THAT(
      err_.str(),
      HasSubstr("error[E0213]: this is a secret, which the record does not store [/data/0]"));
  EXPECT_THAT(err_.str(), HasSubstr("help: enter it again as an override"));
  EXPECT_FALSE(fs::exists(folder_.path() / "run"));
}

TEST_F(RunRecordTest, ReusedNodeIsReportedAndRecorded) {
  run_script({"hello", "echo", "ready", "read", kStarted,
              R"(line:{"event":"reused","node":"data","run":"/a/run"})", kFinished, "finished:0"});
  EXPECT_THAT(err_.str(), HasSubstr(R"("reuse":"cacheable","index":"")"));
  EXPECT_THAT(err_.str(), HasSubstr("data: reused from /a/run"));
  EXPECT_THAT(folder_.read("run/log.txt"), HasSubstr("  info   data: reused from /a/run\n"));
  EXPECT_EQ(
      summary()["nodes"].dump(),
      R"([{"id":"data","peak_memory_bytes":4096,"reused_from":"/a/run","seconds":1.5,"status":"finished"}])");
}

TEST_F(RunRecordTest, EvaluationRecordsTheSourceOfItsWeights) {
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

}  // namespace
}  // namespace runner
