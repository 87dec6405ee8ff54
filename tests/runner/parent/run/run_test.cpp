#include "runner/parent/run/run.h"

#include <chrono>
#include <csignal>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/record/recorded_run.h"
#include "tests/support/run_fixture.h"
#include "tests/support/system_calls.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
namespace fs = std::filesystem;

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

TEST_F(RunTest, ResumeInterruptedEarlyShowsHowToContinue) {
  resume_ = (folder_.path() / "run").string();
  EXPECT_EQ(run_script({"hello", "read", "finished:130"}), ExitCode::kInterrupted);
  EXPECT_EQ(err_.str(), "interrupted: continue with `retort resume " + resume_ + "`\n");
  EXPECT_EQ(results_.str(), "");
}

TEST_F(RunTest, MetricsAreOnTheDiskBeforeTheFlushIsConfirmed) {
  const WatchedCalls calls;
  run_script({"hello", "read", "ready", "read", kStarted, metric("1", 1),
              R"(line:{"event":"flush","node":"data"})", "echo", "finished:0"});
  EXPECT_THAT(err_.str(), HasSubstr(R"(fake: {"flushed":true})"));
  EXPECT_THAT(calls.flushed(), testing::Contains((folder_.path() / "run/metrics.jsonl").string()));
}

TEST_F(RunTest, ActiveRunIsNotWrittenTo) {
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
      << "no command runs for a stopped run or an evaluation";
}

TEST_F(RunTest, MlflowWithoutAnAddressIsRejectedBeforeAnythingIsWritten) {
  recipe_.has_mlflow = true;
  EXPECT_EQ(run_script({"hello", "read", "ready", "read", kFinished, "finished:0"}),
            ExitCode::kBadRecipe);
  EXPECT_TRUE(wrote_nothing());
  EXPECT_THAT(err_.str(), HasSubstr("MLFLOW_TRACKING_URI is not set"));
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

TEST_F(RunTest, DiskThatFillsUpOnTheLastRecordIsNotSuccess) {
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

TEST_F(RunTest, LinesLoggedBeforeTheFolderExistsKeepTheirTime) {
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
