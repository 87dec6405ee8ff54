#include "runner/parent/run/supervise.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/run/plan_request.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SuperviseTest : public testing::Test {
 protected:
  Ending play(std::vector<std::string> acts,
              const nlohmann::ordered_json& request = {{"request", "run"}}) {
    Conversation conversation;
    conversation.on_event = [&](const Event& event, WorkerProcess& process) {
      if (const auto* said = std::get_if<Said>(&event)) said_.push_back(said->line);
      if (on_event_) on_event_(event, process);
    };
    conversation.on_output = [&](std::string_view text) { output_ += text; };
    conversation.on_resize = [&] { ++resizes_; };
    const auto ending = supervise({.program = RETORT_FAKE_WORKER,
                                   .arguments = std::move(acts),
                                   .is_hosted = is_hosted_,
                                   .grace = grace_},
                                  request, conversation);
    EXPECT_TRUE(ending);
    return ending ? *ending : Ending();
  }
  static std::string only_error(const Ending& ending) {
    if (ending.errors.size() != 1) return std::to_string(ending.errors.size()) + " errors";
    return name(ending.errors[0].code) + ": " + ending.errors[0].message;
  }

  std::function<void(const Event&, WorkerProcess&)> on_event_;
  std::vector<std::string> said_;
  std::string output_;
  int resizes_ = 0;
  bool is_hosted_ = false;
  std::chrono::milliseconds grace_ = std::chrono::seconds(60);
};

TEST_F(SuperviseTest, PassesTheRequestAndReturnsTheWorkersExit) {
  const Ending ending =
      play({"hello", "echo", "finished:66", "exit:66"}, {{"request", "run"}, {"smoke", true}});
  EXPECT_THAT(said_, ElementsAre(R"({"request":"run","smoke":true,"log":"info"})"));
  EXPECT_EQ(ending.exit, ExitCode::kMissingInput);
  EXPECT_TRUE(ending.errors.empty());
}

TEST_F(SuperviseTest, WorkerLeadsItsOwnProcessGroup) {
  play({"hello", "group", "finished:0"});
  EXPECT_THAT(said_, ElementsAre("leads its group"));
}

TEST_F(SuperviseTest, WorkerInheritsOnlyItsOwnDescriptors) {
  // Opens a descriptor above 3, the one that the worker uses, like a shell or a library that does
  // not close its own when it starts a program.
  const Descriptor left_open(fcntl(STDIN_FILENO, F_DUPFD, 4));
  play({"hello", "descriptors", "finished:0"});
  EXPECT_THAT(said_, ElementsAre("0 1 2 3"));
}

TEST_F(SuperviseTest, LargeOutputArrivesCompletely) {
  // Sends more than a pipe holds, in both directions: neither side may wait for the other.
  const Ending ending =
      play({"flood:300000", "hello", "flood:300000", "echo", "out:end", "finished:0"},
           {{"long", std::string(100'000, 'z')}});
  EXPECT_EQ(ending.exit, ExitCode::kDone);
  EXPECT_EQ(output_.size(), 600'004u);
  EXPECT_TRUE(output_.ends_with("end\n"));
  EXPECT_EQ(said_.at(0).size(), 100'024u);
}

TEST_F(SuperviseTest, WorkerFromAnotherBuildIsRejectedBeforeTheRequest) {
  const Ending ending = play({"hello:0.0.9-other", "echo", "exit:3"});
  EXPECT_EQ(only_error(ending), "E0705: this is retort " + std::string(build_id()) +
                                    " (protocol 1), but its worker is 0.0.9-other (protocol 1)");
  EXPECT_EQ(ending.exit, ExitCode::kInternalError);
  EXPECT_TRUE(said_.empty());
}

TEST_F(SuperviseTest, UnsupportedProtocolIsRejected) {
  EXPECT_THAT(only_error(play({"protocol:2", "read", "exit:3"})), HasSubstr("(protocol 2)"));
}

TEST_F(SuperviseTest, InvalidEventStopsTheWorker) {
  const std::string start = "E0708: the worker sent an invalid message: ";
  EXPECT_EQ(only_error(play({"hello", "line:Segmentation fault", "forever"})), start + "not JSON");
  EXPECT_EQ(only_error(play({"line:{}", "forever"})), start + "an event has no 'event'");
  EXPECT_EQ(only_error(play({"ready", "forever"})), start + "its first event is not a hello");
  EXPECT_EQ(only_error(play({"hello", "hello", "forever"})), start + "a second hello");
  EXPECT_EQ(only_error(play({"hello", "finished:0", "ready", "forever"})),
            start + "an event after its last one");
  EXPECT_EQ(only_error(play({"hello", "long:17000000", "finished:0"})),
            start + "a line of more than 16 MiB");
}

TEST_F(SuperviseTest, DeathBySignalIsReportedWithAdvice) {
  const Ending ending = play({"hello", "read", "err:last words", "die:9"});
  EXPECT_EQ(only_error(ending), "E0704: the worker was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(ending.errors[0].help,
            "the operating system often does this when memory runs out (see `dmesg`): use a "
            "smaller batch, or more memory");
  EXPECT_EQ(ending.killed_by, 9);
  EXPECT_EQ(ending.exit, ExitCode::kRunFailed);
  EXPECT_EQ(output_, "last words\n");
  EXPECT_EQ(only_error(play({"hello", "die:11"})),
            "E0704: the worker was killed by signal 11 (SIGSEGV)");
}

TEST_F(SuperviseTest, OnlyCrashSignalsAreReportedAsBugs) {
  const auto advice = [&](int number) {
    const Ending ending = play({"hello", "read", "die:" + std::to_string(number)});
    return ending.errors.empty() ? "" : ending.errors[0].help;
  };
  for (const int number : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
    EXPECT_EQ(advice(number), "this is a bug in Retort") << signal_name(number);
  EXPECT_EQ(advice(SIGXCPU), "it reached the CPU time limit: raise it with `ulimit -t`");
  EXPECT_EQ(advice(SIGXFSZ), "a file reached the file size limit: raise it with `ulimit -f`");
  for (const int number : {SIGALRM, SIGVTALRM, SIGPROF, SIGPIPE, SIGQUIT, SIGPOLL, SIGRTMIN})
    EXPECT_EQ(advice(number), "") << signal_name(number);
}

TEST_F(SuperviseTest, ExitWithoutAFinishedEventIsADeath) {
  EXPECT_EQ(only_error(play({"hello", "read", "exit:0"})),
            "E0704: the worker exited with code 0 before it had finished");
  EXPECT_EQ(only_error(play({"exit:1"})),
            "E0704: the worker exited with code 1 before it had finished");
  EXPECT_EQ(play({"exit:1"}).errors[0].help, "");
}

TEST_F(SuperviseTest, DeathInPythonIsNotCalledABugInRetort) {
  is_hosted_ = true;
  const Ending crashed = play({"hello", "read", "die:11"});
  EXPECT_EQ(only_error(crashed), "E0704: the worker was killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(crashed.errors[0].help,
            "the recipe's Python code, one of its packages or Retort has crashed; -v or log.txt "
            "shows where Python was");
  const Ending left = play({"hello", "read", "exit:0"});
  EXPECT_EQ(only_error(left), "E0704: the worker exited with code 0 before it had finished");
  EXPECT_EQ(left.errors[0].help,
            "find out whether the recipe's Python code ends the process, as os._exit does");
}

TEST_F(SuperviseTest, MissingLibrariesSuggestPipInstall) {
  const Ending ending = play({"exit:127"});
  EXPECT_EQ(only_error(ending), "E0704: the worker exited with code 127 before it had finished");
  EXPECT_EQ(ending.errors[0].help,
            "its libraries could not be loaded; in a virtual environment, run `pip install "
            "'" RETORT_TORCH_REQUIREMENT "'`");
  EXPECT_EQ(play({"hello", "read", "exit:127"}).errors[0].help, "") << "the libraries were loaded";
}

TEST_F(SuperviseTest, InterpreterThatEndsBeforeItsGreetingIsExplained) {
  is_hosted_ = true;
  const std::string cannot = "E0715: '" RETORT_FAKE_WORKER "' cannot host the worker: ";
  EXPECT_EQ(only_error(play(
                {"out:loading", "err:retort_host: error: no torch here", "err:bye", "exit:69"})),
            cannot + "no torch here");
  EXPECT_EQ(only_error(play({"err:Traceback:", "err:ImportError: none\n", "exit:1"})),
            cannot + "ImportError: none");
  EXPECT_EQ(only_error(play({"exit:127"})), cannot + "it exited with code 127");
  EXPECT_EQ(only_error(play({"die:11"})), cannot + "it was killed by SIGSEGV");
  EXPECT_EQ(only_error(play({"flood:200000", "err:", "err:last", "exit:1"})), cannot + "last");
}

TEST_F(SuperviseTest, InterpreterThatDiesAfterItsGreetingIsReportedLikeAnyWorker) {
  is_hosted_ = true;
  EXPECT_EQ(only_error(play({"hello", "read", "err:chatter", "exit:1"})),
            "E0704: the worker exited with code 1 before it had finished");
  EXPECT_EQ(only_error(play({"die:9"})), "E0704: the worker was killed by signal 9 (SIGKILL)")
      << "memory may have run out while it loaded";
}

TEST_F(SuperviseTest, PartialLineBeforeDeathIsNotAnEvent) {
  EXPECT_EQ(only_error(play({"hello", "read", "half:{\"event\":\"fin", "die:9"})),
            "E0704: the worker was killed by signal 9 (SIGKILL)");
}

TEST_F(SuperviseTest, DeathAfterTheFinishedEventIsIgnored) {
  EXPECT_TRUE(play({"hello", "read", "finished:0", "die:11"}).errors.empty());
}

TEST_F(SuperviseTest, SignalIsForwardedAndTheWorkerReportsItsExit) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    for (const bool has_saved : {false, true}) {
      said_.clear();
      on_event_ = [&](const Event& event, WorkerProcess&) {
        if (std::holds_alternative<Ready>(event)) raise(number);
      };
      const ExitCode exit = exit_code_of_stop(number, has_saved);
      const Ending ending = play(
          {"hello", "read", "ready", "wait", "finished:" + std::to_string(static_cast<int>(exit))});
      EXPECT_THAT(said_, ElementsAre("signal " + std::to_string(number)));
      EXPECT_EQ(ending.exit, exit);
      EXPECT_TRUE(ending.errors.empty());
    }
  }
}

TEST_F(SuperviseTest, WorkerKilledByAForwardedSignalCountsAsStopped) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    on_event_ = [&](const Event& event, WorkerProcess&) {
      if (std::holds_alternative<Ready>(event)) raise(number);
    };
    const Ending ending = play({"hello", "read", "ready", "wait", "die:11"});
    EXPECT_EQ(ending.exit, exit_code_of_stop(number, /*has_saved=*/false));
    EXPECT_TRUE(ending.errors.empty());
    EXPECT_EQ(ending.killed_by, std::nullopt);
  }
}

TEST_F(SuperviseTest, SecondInterruptKillsAnUnresponsiveWorker) {
  on_event_ = [&](const Event& event, WorkerProcess&) {
    if (std::holds_alternative<Ready>(event)) raise(SIGINT);
    if (const auto* said = std::get_if<Said>(&event); said && said->line == "signal 2")
      raise(SIGINT);
  };
  const Ending ending = play({"hello", "read", "ready", "wait", "forever"});
  EXPECT_EQ(ending.exit, ExitCode::kInterrupted);
  EXPECT_TRUE(ending.errors.empty());
  EXPECT_EQ(ending.killed_by, std::nullopt);
}

TEST_F(SuperviseTest, WorkerThatIgnoresSigtermIsKilledInTime) {
  grace_ = std::chrono::milliseconds(1);
  on_event_ = [](const Event&, WorkerProcess&) { raise(SIGTERM); };
  const Ending ending = play({"hello", "read", "ready", "forever"});
  EXPECT_EQ(ending.exit, ExitCode::kTerminated);
  EXPECT_TRUE(ending.errors.empty());
  EXPECT_TRUE(ending.was_deaf);
}

TEST_F(SuperviseTest, WorkerThatStopsInTimeIsNotKilled) {
  on_event_ = [](const Event& event, WorkerProcess&) {
    if (std::holds_alternative<Ready>(event)) raise(SIGTERM);
  };
  const Ending ending = play({"hello", "read", "ready", "wait", "finished:75", "exit:75"});
  EXPECT_EQ(ending.exit, ExitCode::kStoppedAfterSave);
  EXPECT_FALSE(ending.was_deaf);
}

TEST_F(SuperviseTest, SecondSigtermIsNotForwarded) {
  on_event_ = [&](const Event& event, WorkerProcess& worker) {
    if (std::holds_alternative<Ready>(event)) raise(SIGTERM);
    const auto* said = std::get_if<Said>(&event);
    if (said && said->line == "signal 15") {
      raise(SIGTERM);
      worker.signal(SIGHUP);  // the worker waits for this; another SIGTERM would arrive first
    }
  };
  play({"hello", "read", "ready", "wait", "wait", "finished:143"});
  EXPECT_THAT(said_, ElementsAre("signal 15", "signal 1"));
}

TEST_F(SuperviseTest, WorkFinishedDespiteASignalCountsAsDone) {
  on_event_ = [&](const Event& event, WorkerProcess&) {
    if (std::holds_alternative<Ready>(event)) raise(SIGINT);
  };
  const Ending ending = play({"hello", "read", "ready", "wait", "finished:0"});
  EXPECT_EQ(ending.exit, ExitCode::kDone);
}

TEST_F(SuperviseTest, TerminalResizeIsReported) {
  on_event_ = [&](const Event& event, WorkerProcess& worker) {
    if (std::holds_alternative<Ready>(event)) raise(SIGWINCH);
    worker.signal(SIGHUP);
  };
  play({"hello", "read", "ready", "wait", "finished:0"});
  EXPECT_EQ(resizes_, 1);
}

TEST_F(SuperviseTest, ExceptionInAListenerStopsTheWorker) {
  on_event_ = [](const Event&, WorkerProcess&) { throw std::runtime_error("disk full"); };
  EXPECT_THROW(play({"hello", "read", "ready", "forever"}), std::runtime_error);
}

TEST_F(SuperviseTest, SignalHandlersAreRestored) {
  struct sigaction before {
  }, after{};
  sigset_t mask;
  sigaction(SIGPIPE, nullptr, &before);
  play({"hello", "finished:0"});
  sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGINT));
}

TEST_F(SuperviseTest, IgnoredSignalStaysIgnored) {
  const auto old = std::signal(SIGHUP, SIG_IGN);
  on_event_ = [&](const Event& event, WorkerProcess& worker) {
    if (!std::holds_alternative<Ready>(event)) return;
    raise(SIGHUP);  // like a hang-up under nohup
    worker.signal(SIGTERM);
  };
  const Ending ending = play({"hello", "read", "ready", "wait", "finished:0"});
  std::signal(SIGHUP, old);
  EXPECT_THAT(said_, ElementsAre("signal 15"));
  EXPECT_EQ(ending.exit, ExitCode::kDone);
}

TEST(AskWorker, ReturnsTheAnswer) {
  const auto answer = ask_worker({RETORT_FAKE_WORKER, {"hello", "read", "answer:x", "finished:0"}},
                                 {{"request", "versions"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->dump(), R"({"given":"x"})");
}

TEST(AskWorker, DiagnosticsAndDeathsAreErrors) {
  const auto refused = ask_worker(
      {RETORT_FAKE_WORKER,
       {"hello", "read",
        R"(line:{"event":"diagnostic","severity":"error","code":"E0610","message":"taken","pointer":"","help":"","notes":[]})",
        "finished:73"}},
      {{"request", "make_data"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors().at(0).message, "taken");
  const auto died = ask_worker({RETORT_FAKE_WORKER, {"hello", "die:9"}}, {{"request", "versions"}});
  EXPECT_EQ(died.errors().at(0).code, ErrorCode::kWorkerDied);
  const auto silent =
      ask_worker({RETORT_FAKE_WORKER, {"hello", "finished:0"}}, {{"request", "versions"}});
  EXPECT_EQ(silent.errors().at(0).message, "the worker did not answer");
}

}  // namespace
}  // namespace runner
