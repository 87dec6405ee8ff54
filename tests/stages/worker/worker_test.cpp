#include "stages/worker/worker.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/parent/run/worker_process.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

/// Runs n - 1 nondeterministic operations. With n = 0 it stops; with -1, after it has saved; with
/// -2, when it continues from what an earlier process has saved.
class SpeakingStage : public runner::Stage {
 public:
  explicit SpeakingStage(std::int64_t n) : n_(n) {}
  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    context.say(context.node().device + (context.node().smoke ? " smoke" : ""));
    context.debug("what the stage chose");
    if (n_ == -1) context.sync_metrics();
    if (n_ == -2) context.resumed(0, 0);
    if (n_ <= 0) throw runner::Canceled{};
    for (std::int64_t i = 1; i < n_; ++i)
      torch::zeros(2).put_(torch::tensor({0, 0}), torch::ones(2));
    return {};
  }

 private:
  const std::int64_t n_;
};

const runner::StageKind kSpeaking{
    "test.speaking",
    [](runner::ConfigReader& reader) -> runner::Result<std::unique_ptr<runner::Stage>> {
      std::int64_t n = 0;
      reader.read("n", n);
      if (auto errors = reader.finish(); !errors.empty()) return errors;
      return std::unique_ptr<runner::Stage>(std::make_unique<SpeakingStage>(n));
    }};
const runner::StageKind* const kKinds[] = {&kSpeaking};

runner::Result<Json> twice(const Json& request, const RequestContext& context) {
  if (!request.contains("n"))
    throw runner::StageError(runner::ErrorCode::kUsage, "no n").at("/n").with_help("give one");
  if (request["n"] == 0) throw runner::Canceled{};
  if (request["n"] < 0) throw std::runtime_error("negative\nException raised from here");
  context.say("computing");
  return Json{{"twice", request["n"].get<int>() * 2}};
}
const RequestKind kRequests[] = {{"twice", twice}};

class WorkerTest : public testing::Test {
 protected:
  /// Serves the lines of `requests` and splits the worker's output into lines.
  runner::ExitCode serve(const std::string& requests, int signal = 0) {
    int in[2];
    EXPECT_EQ(pipe(in), 0);
    EXPECT_EQ(write(in[1], requests.data(), requests.size()),
              static_cast<ssize_t>(requests.size()));
    close(in[1]);
    return serve_from(in[0], signal);
  }
  /// Serves the lines that can be read from `in`, which it closes.
  runner::ExitCode serve_from(int in, int signal = 0) {
    int out[2];
    EXPECT_EQ(pipe(out), 0);
    WorkerSignals signals{.stop = signal};
    const auto exit = Worker(in, out[1], kKinds, kRequests, signals).serve();
    close(out[1]);
    std::string text;
    char piece[4096];
    for (ssize_t size; (size = read(out[0], piece, sizeof piece)) > 0;) text.append(piece, size);
    close(in);
    close(out[0]);
    events_.clear();
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      events_.push_back(runner::event_from_line(line));
    EXPECT_TRUE(std::holds_alternative<runner::Hello>(events_.front()));
    EXPECT_EQ(std::get<runner::Finished>(events_.back()).exit, static_cast<int>(exit));
    return exit;
  }
  std::vector<std::string> told() const {
    std::vector<std::string> result;
    for (const auto& event : events_) {
      if (const auto* said = std::get_if<runner::Said>(&event))
        result.push_back("say " + said->line);
      if (std::holds_alternative<runner::Ready>(event)) result.push_back("ready");
      if (const auto* answer = std::get_if<runner::Answer>(&event))
        result.push_back("answer " + answer->json.dump());
      if (const auto* reported = std::get_if<runner::Reported>(&event)) {
        const auto& d = reported->diagnostic;
        result.push_back(name(d.code) + " " + d.pointer + ": " + d.message);
      }
    }
    return result;
  }
  static std::string run_request(const std::string& device, const std::string& n,
                                 runner::Determinism determinism = runner::Determinism::kStrict) {
    runner::Graph graph{"test", 0, 1, device, 1, {}};
    graph.determinism = determinism;
    graph.nodes.push_back(
        {"a", "a", "test.speaking", runner::from_json(Json{{"n", Json::parse(n)}}), "/a", {}, 0});
    return Json{{"protocol", 1}, {"request", "run"}, {"graph", to_json(graph)}, {"smoke", true}}
               .dump() +
           "\n";
  }

  /// Returns what retort sends once the run folder exists, and its acknowledgment of the flush of a
  /// finished node.
  std::string go() const {
    std::filesystem::create_directory(folder_.path() / ".retort");
    return Json{{"go", {{"folder", folder_.path()}}}}.dump() + "\n" + R"({"flushed":true})" + "\n";
  }

  TemporaryFolder folder_;
  std::vector<runner::Event> events_;
};

TEST_F(WorkerTest, NondeterministicOperationsAreHandledAsTheRecipeSpecifies) {
  const std::string go = this->go();
  testing::internal::CaptureStderr();
  EXPECT_EQ(serve(run_request("cpu", "3") + go), runner::ExitCode::kRunFailed);
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      told(),
      ElementsAre(
          "ready", "say cpu smoke",
          "E0710 /a: the operation 'put_' has no deterministic implementation on this device"));
  EXPECT_EQ(serve(run_request("cpu", "3", runner::Determinism::kWarn) + go),
            runner::ExitCode::kDone);
  EXPECT_THAT(
      told(),
      ElementsAre(
          "ready", "say cpu smoke",
          "E0710 /determinism: a: the operation 'put_' has no deterministic implementation on this "
          "device"));
  EXPECT_EQ(serve(run_request("cpu", "3", runner::Determinism::kOff) + go),
            runner::ExitCode::kDone);
  EXPECT_THAT(told(), ElementsAre("ready", "say cpu smoke"));
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST_F(WorkerTest, CheckedRunReportsItsTensors) {
  Json request = Json::parse(run_request("cpu", "1"));
  request["check"] = {{"steps", 3}, {"file", folder_.path() / "tensors"}, {"compare", false}};
  const std::string go = "\n" + this->go();
  EXPECT_EQ(serve(request.dump() + go), runner::ExitCode::kDone);
  EXPECT_THAT(told(), ElementsAre("ready", "say cpu smoke",
                                  R"(answer {"steps":0,"tensors":0,"difference":null})"));
  request["check"]["steps"] = "many";
  EXPECT_EQ(serve(request.dump() + go), runner::ExitCode::kInternalError);
  EXPECT_THAT(told(), ElementsAre("E0708 : retort's request cannot be understood: its 'check'"));
}

TEST_F(WorkerTest, RunsAGraphAfterGo) {
  EXPECT_EQ(serve(run_request("cpu", "1") + go()), runner::ExitCode::kDone);
  EXPECT_THAT(told(), ElementsAre("ready", "say cpu smoke"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "nodes/a"));
  const auto& hello = std::get<runner::Hello>(events_.front());
  EXPECT_EQ(hello.build, runner::build_id());
  EXPECT_EQ(hello.versions["libtorch"], RETORT_LIBTORCH_VERSION);
}

TEST_F(WorkerTest, LogLevelComesFromTheRequest) {
  Json request = Json::parse(run_request("cpu", "1"));
  const std::string go = "\n" + this->go();
  const auto logged = [&](const std::string& level) {
    request["log"] = level;
    EXPECT_EQ(serve(request.dump() + go), runner::ExitCode::kDone);
    std::vector<std::string> lines;
    for (const runner::Event& event : events_) {
      if (const auto* line = std::get_if<runner::Logged>(&event))
        lines.push_back(std::string(name(line->level)) + " " + line->node + ": " + line->line);
    }
    return lines;
  };
  EXPECT_THAT(logged("info"), testing::IsEmpty());
  EXPECT_THAT(logged("debug"),
              ElementsAre(StartsWith("debug : worker: process "),
                          StartsWith("debug : kernels: " + at::get_cpu_capability()),
                          StartsWith("debug : device: cpu, "),
                          StartsWith("debug : threads: " + std::to_string(at::get_num_threads()) +
                                     " for tensor operations"),
                          StartsWith("debug : allocator: malloc, which may keep freed memory"),
                          "debug a: plan: cannot be planned before others have run",
                          "debug a: what the stage chose"));
  EXPECT_GT(logged("trace").size(), 7u);
}

TEST_F(WorkerTest, UnknownLogLevelIsRejected) {
  Json request = Json::parse(run_request("cpu", "1"));
  for (const Json& level : {Json("loud"), Json(1)}) {
    request["log"] = level;
    EXPECT_EQ(serve(request.dump() + "\n"), runner::ExitCode::kInternalError);
    EXPECT_THAT(told(), ElementsAre("E0708 : retort's request cannot be understood: its 'log'"));
  }
}

TEST_F(WorkerTest, StopsIfAFlushIsNotAcknowledged) {
  std::filesystem::create_directory(folder_.path() / ".retort");
  EXPECT_EQ(
      serve(run_request("cpu", "1") + Json{{"go", {{"folder", folder_.path()}}}}.dump() + "\n"),
      runner::ExitCode::kTerminated);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "nodes/a/finished.json"));
}

TEST_F(WorkerTest, RunLockedByAnotherProcessIsLeftAlone) {
  EXPECT_EQ(
      serve(run_request("cpu", "1") + Json{{"go", {{"folder", folder_.path()}}}}.dump() + "\n"),
      runner::ExitCode::kCannotWrite);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "nodes"));
}

TEST_F(WorkerTest, ReportsAllErrorsInsteadOfReady) {
  EXPECT_EQ(serve(run_request("cuda:99", "\"one\"")), runner::ExitCode::kDeviceUnavailable);
  ASSERT_EQ(told().size(), 2u);
  EXPECT_THAT(told()[0], HasSubstr("E0703 /device/select: device 'cuda:99' is not available: "));
  EXPECT_EQ(told()[1], "E0302 /a/n: 'n' must be an integer, not \"one\"");
}

TEST_F(WorkerTest, ExitsSilentlyWithoutGo) {
  EXPECT_EQ(serve(run_request("cpu", "1")), runner::ExitCode::kTerminated);
  EXPECT_THAT(told(), ElementsAre("ready"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(WorkerTest, SignalsHaveTheirOwnExitCodes) {
  EXPECT_EQ(serve(run_request("cpu", "1"), SIGINT), runner::ExitCode::kInterrupted);
  EXPECT_EQ(serve(run_request("cpu", "1"), SIGTERM), runner::ExitCode::kTerminated);
}

TEST_F(WorkerTest, StopAfterASaveHasItsOwnExitCode) {
  EXPECT_EQ(serve(run_request("cpu", "0") + go()), runner::ExitCode::kTerminated);
  EXPECT_EQ(serve(run_request("cpu", "-1") + go()), runner::ExitCode::kStoppedAfterSave);
  EXPECT_EQ(serve(run_request("cpu", "-2") + go()), runner::ExitCode::kStoppedAfterSave);
  EXPECT_THAT(told(), ElementsAre("ready", "say cpu smoke"));
}

TEST_F(WorkerTest, StopAfterAFinishedNodeIsNotAStopAfterASave) {
  Json request = Json::parse(run_request("cpu", "1"));
  Json stopped = request["graph"]["nodes"][0];
  stopped["id"] = "b";
  stopped["options"]["n"] = 0;
  request["graph"]["nodes"].push_back(stopped);
  EXPECT_EQ(serve(request.dump() + "\n" + go()), runner::ExitCode::kTerminated);
}

TEST_F(WorkerTest, AnswersOtherRequests) {
  EXPECT_EQ(serve(R"({"protocol":1,"request":"twice","n":21})"
                  "\n"),
            runner::ExitCode::kDone);
  EXPECT_THAT(told(), ElementsAre("say computing", R"(answer {"twice":42})"));
}

TEST_F(WorkerTest, FailuresOfOtherRequestsAreReportedLikeThoseOfStages) {
  EXPECT_EQ(serve(R"({"protocol":1,"request":"twice"})"
                  "\n"),
            runner::ExitCode::kUsage);
  EXPECT_THAT(told(), ElementsAre("E0501 /n: no n"));
  EXPECT_EQ(serve(R"({"protocol":1,"request":"twice","n":-1})"
                  "\n"),
            runner::ExitCode::kRunFailed);
  EXPECT_THAT(told(), ElementsAre("E0701 : negative"));
  EXPECT_EQ(serve(R"({"protocol":1,"request":"twice","n":0})"
                  "\n"),
            runner::ExitCode::kTerminated);
}

TEST_F(WorkerTest, InvalidRequestIsRejected) {
  const std::string start = "E0708 : retort's request cannot be understood: ";
  const std::pair<std::string, std::string> cases[] = {
      {"nonsense\n", "not a JSON object"},
      {"[]\n", "not a JSON object"},
      {"{}\n", "its protocol"},
      {R"({"protocol":2,"request":"run"})"
       "\n",
       "its protocol"},
      {R"({"protocol":1})"
       "\n",
       "no 'request'"},
      {R"({"protocol":1,"request":"dance"})"
       "\n",
       "'dance'"},
      {R"({"protocol":1,"request":"run"})"
       "\n",
       "no 'graph'"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(serve(one.first), runner::ExitCode::kInternalError);
    EXPECT_THAT(told(), ElementsAre(start + one.second));
  }
  serve(run_request("cpu", "1") + "{\"go\":{}}\n");
  EXPECT_THAT(told(), ElementsAre("ready", start + "it has no folder for the run"));
}

TEST_F(WorkerTest, RequestWithoutALineEndIsRejected) {
  const auto file = folder_.write("request", "");
  std::filesystem::resize_file(file, (16 << 20) + (1 << 20));  // contains no line end
  EXPECT_EQ(serve_from(open(file.c_str(), O_RDONLY | O_CLOEXEC)), runner::ExitCode::kInternalError);
  EXPECT_THAT(
      told(),
      ElementsAre("E0708 : retort's request cannot be understood: a line of more than 16 MiB"));
}

TEST(RealWorker, ExplainsItselfIfStartedManually) {
  const auto program = runner::own_executable().parent_path() / "retort-worker";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "retort-worker is not built";
  for (const std::string arguments : {" --help", "", " --events-fd 77", " --events-fd x"}) {
    FILE* pipe = popen((program.string() + arguments + " 2>&1").c_str(), "r");
    char text[256] = {};
    EXPECT_GT(fread(text, 1, sizeof text - 1, pipe), 0u);
    EXPECT_STREQ(text, "retort-worker only works when started by retort: see `retort --help`\n");
    EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 64);
  }
}

// A handler's frame must not be below the stack pointer, which a generated kernel may have set to
// an address in the heap.
TEST(WorkerSignals, HandlersHaveTheirOwnStack) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        watch_signals();
        stack_t stack{};
        bool is_so = sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) == 0 &&
                     static_cast<long>(stack.ss_size) >= sysconf(_SC_MINSIGSTKSZ);
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
          struct sigaction action {};
          sigaction(number, nullptr, &action);
          is_so = is_so && (action.sa_flags & SA_ONSTACK) != 0;
        }
        std::_Exit(is_so ? 3 : 4);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace stages
