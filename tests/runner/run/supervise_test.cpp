#include "runner/run/supervise.h"

#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SuperviseTest : public testing::Test {
 protected:
  Ending play(std::vector<std::string> acts, const nlohmann::ordered_json& request = {{"request", "run"}}) {
    SignalSource signals;
    auto worker = WorkerProcess::start({RETORT_FAKE_WORKER, std::move(acts)}, signals);
    EXPECT_TRUE(worker);
    Conversation conversation;
    conversation.on_event = [&](const Event& event, WorkerProcess& process) {
      if (const auto* said = std::get_if<Said>(&event)) said_.push_back(said->line);
      if (on_event_) on_event_(event, process);
    };
    conversation.on_output = [&](std::string_view text) { output_ += text; };
    conversation.on_resize = [&] { ++resizes_; };
    return supervise(*worker, request, conversation);
  }
  static std::string only_error(const Ending& ending) {
    if (ending.errors.size() != 1) return std::to_string(ending.errors.size()) + " errors";
    return name(ending.errors[0].code) + ": " + ending.errors[0].message;
  }

  std::function<void(const Event&, WorkerProcess&)> on_event_;
  std::vector<std::string> said_;
  std::string output_;
  int resizes_ = 0;
};

TEST_F(SuperviseTest, HandsOverTheRequestAndEndsAsTheWorkerSays) {
  const Ending ending = play({"hello", "echo", "finished:66", "exit:66"}, {{"request", "run"}, {"smoke", true}});
  EXPECT_THAT(said_, ElementsAre(R"({"request":"run","smoke":true})"));
  EXPECT_EQ(ending.exit, ExitCode::kMissingInput);
  EXPECT_TRUE(ending.errors.empty());
  EXPECT_FALSE(ending.interrupted);
}

TEST_F(SuperviseTest, WorkerLeadsAProcessGroupOfItsOwn) {
  play({"hello", "group", "finished:0"});
  EXPECT_THAT(said_, ElementsAre("leads its group"));
}

TEST_F(SuperviseTest, OutputComesThroughEvenWhenItIsMuch) {
  // More than a pipe holds in every direction: nobody may wait for the other.
  const Ending ending = play({"flood:300000", "hello", "flood:300000", "echo", "out:end", "finished:0"},
                             {{"long", std::string(100'000, 'z')}});
  EXPECT_EQ(ending.exit, ExitCode::kDone);
  EXPECT_EQ(output_.size(), 600'004u);
  EXPECT_TRUE(output_.ends_with("end\n"));
  EXPECT_EQ(said_.at(0).size(), 100'011u);
}

TEST_F(SuperviseTest, AnotherBuildIsRefusedBeforeItGetsARequest) {
  const Ending ending = play({"hello:0.0.9-other", "echo", "forever"});
  EXPECT_EQ(only_error(ending), "E0705: this is retort " + std::string(build_id()) +
                                    " (protocol 1), but its worker is 0.0.9-other (protocol 1)");
  EXPECT_EQ(ending.exit, ExitCode::kInternalError);
  EXPECT_TRUE(said_.empty());
}

TEST_F(SuperviseTest, AnotherProtocolIsRefused) {
  EXPECT_THAT(only_error(play({"protocol:2", "forever"})), HasSubstr("(protocol 2)"));
}

TEST_F(SuperviseTest, NonsenseStopsTheWorker) {
  const std::string start = "E0708: the worker said something that cannot be understood: ";
  EXPECT_EQ(only_error(play({"hello", "line:Segmentation fault", "forever"})), start + "not JSON");
  EXPECT_EQ(only_error(play({"line:{}", "forever"})), start + "no 'event'");
  EXPECT_EQ(only_error(play({"ready", "forever"})), start + "its first event is no hello");
  EXPECT_EQ(only_error(play({"hello", "hello", "forever"})), start + "a second hello");
  EXPECT_EQ(only_error(play({"hello", "finished:0", "ready", "forever"})), start + "an event after the last");
  EXPECT_EQ(only_error(play({"hello", "long:17000000", "forever"})), start + "a line of more than 16 MiB");
}

TEST_F(SuperviseTest, DeathBySignalIsNamedWithAdvice) {
  const Ending ending = play({"hello", "read", "err:last words", "die:9"});
  EXPECT_EQ(only_error(ending), "E0704: the worker was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(ending.errors[0].help,
            "often the kernel has run out of memory (see `dmesg`): use a smaller batch, or more memory");
  EXPECT_EQ(ending.killed_by, 9);
  EXPECT_EQ(ending.exit, ExitCode::kRunFailed);
  EXPECT_EQ(output_, "last words\n");
  EXPECT_EQ(only_error(play({"hello", "die:11"})), "E0704: the worker was killed by signal 11 (SIGSEGV)");
}

TEST_F(SuperviseTest, EndWithoutFinishedIsADeath) {
  EXPECT_EQ(only_error(play({"hello", "read", "exit:0"})),
            "E0704: the worker ended with exit code 0 before it was done");
  EXPECT_EQ(only_error(play({"exit:127"})), "E0704: the worker ended with exit code 127 before it was done");
}

TEST_F(SuperviseTest, HalfALineBeforeDeathIsNotTakenForAnEvent) {
  EXPECT_EQ(only_error(play({"hello", "read", "half:{\"event\":\"fin", "die:9"})),
            "E0704: the worker was killed by signal 9 (SIGKILL)");
}

TEST_F(SuperviseTest, DeathAfterFinishedChangesNothing) {
  EXPECT_TRUE(play({"hello", "read", "finished:0", "die:11"}).errors.empty());
}

TEST_F(SuperviseTest, SignalIsPassedOnAndDecidesTheExitCode) {
  const std::pair<int, ExitCode> cases[] = {
      {SIGINT, ExitCode::kInterrupted}, {SIGTERM, ExitCode::kTerminated}, {SIGHUP, ExitCode::kTerminated}};
  for (const auto& one : cases) {
    said_.clear();
    on_event_ = [&](const Event& event, WorkerProcess&) {
      if (std::holds_alternative<Ready>(event)) raise(one.first);
    };
    const Ending ending = play({"hello", "read", "ready", "wait", "finished:130"});
    EXPECT_THAT(said_, ElementsAre("signal " + std::to_string(one.first)));
    EXPECT_TRUE(ending.interrupted);
    EXPECT_EQ(ending.exit, one.second);
    EXPECT_TRUE(ending.errors.empty());
  }
}

TEST_F(SuperviseTest, SecondInterruptKillsAWorkerThatDoesNotListen) {
  on_event_ = [&](const Event& event, WorkerProcess&) {
    if (std::holds_alternative<Ready>(event)) raise(SIGINT);
    if (const auto* said = std::get_if<Said>(&event); said && said->line == "signal 2") raise(SIGINT);
  };
  const Ending ending = play({"hello", "read", "ready", "wait", "forever"});
  EXPECT_TRUE(ending.interrupted);
  EXPECT_EQ(ending.exit, ExitCode::kInterrupted);
  EXPECT_TRUE(ending.errors.empty());
  EXPECT_EQ(ending.killed_by, std::nullopt);
}

TEST_F(SuperviseTest, SecondTerminationIsNotPassedOn) {
  on_event_ = [&](const Event& event, WorkerProcess& worker) {
    if (std::holds_alternative<Ready>(event)) raise(SIGTERM);
    const auto* said = std::get_if<Said>(&event);
    if (said && said->line == "signal 15") {
      raise(SIGTERM);
      worker.signal(SIGHUP);  // what it waits for next; another TERM would come before
    }
  };
  play({"hello", "read", "ready", "wait", "wait", "finished:143"});
  EXPECT_THAT(said_, ElementsAre("signal 15", "signal 1"));
}

TEST_F(SuperviseTest, WorkThatFinishedDespiteASignalIsDone) {
  on_event_ = [&](const Event& event, WorkerProcess&) {
    if (std::holds_alternative<Ready>(event)) raise(SIGINT);
  };
  const Ending ending = play({"hello", "read", "ready", "wait", "finished:0"});
  EXPECT_EQ(ending.exit, ExitCode::kDone);
  EXPECT_FALSE(ending.interrupted);
}

TEST_F(SuperviseTest, ResizeOfTheTerminalIsReported) {
  on_event_ = [&](const Event& event, WorkerProcess& worker) {
    if (std::holds_alternative<Ready>(event)) raise(SIGWINCH);
    worker.signal(SIGHUP);
  };
  play({"hello", "read", "ready", "wait", "finished:0"});
  EXPECT_EQ(resizes_, 1);
}

TEST_F(SuperviseTest, ExceptionOfAListenerStopsTheWorker) {
  on_event_ = [](const Event&, WorkerProcess&) { throw std::runtime_error("disk full"); };
  EXPECT_THROW(play({"hello", "read", "ready", "forever"}), std::runtime_error);
}

TEST_F(SuperviseTest, SignalsAreAsBeforeAfterwards) {
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
    raise(SIGHUP);  // as a hang-up under nohup
    worker.signal(SIGTERM);
  };
  const Ending ending = play({"hello", "read", "ready", "wait", "finished:0"});
  std::signal(SIGHUP, old);
  EXPECT_THAT(said_, ElementsAre("signal 15"));
  EXPECT_EQ(ending.exit, ExitCode::kDone);
}

TEST(WorkerProcess, ProgramThatCannotBeStartedIsReported) {
  SignalSource signals;
  const auto worker = WorkerProcess::start({"/nonexistent/retort-worker"}, signals);
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.errors().at(0).message, "cannot start '/nonexistent/retort-worker': No such file or directory");
  EXPECT_EQ(worker.errors().at(0).code, ErrorCode::kWorkerMissing);
}

TEST(WorkerProcess, DiesWithItsParent) {
  std::string lock = testing::TempDir() + "worker-lock-XXXXXX";
  const int file = mkstemp(lock.data());
  const pid_t parent = fork();
  if (parent == 0) {
    SignalSource signals;
    auto worker = WorkerProcess::start({RETORT_FAKE_WORKER, {"lock:" + lock, "hello", "forever"}}, signals);
    while (!std::holds_alternative<EventLine>(worker->next())) {
    }
    _exit(0);  // without a word to the worker
  }
  waitpid(parent, nullptr, 0);
  alarm(20);
  EXPECT_EQ(flock(file, LOCK_EX), 0);  // free only when the worker is gone
  alarm(0);
  close(file);
  std::remove(lock.c_str());
}

TEST(WorkerProcess, DestroyingItKillsIt) {
  std::string lock = testing::TempDir() + "worker-lock-XXXXXX";
  const int file = mkstemp(lock.data());
  {
    SignalSource signals;
    auto worker = WorkerProcess::start({RETORT_FAKE_WORKER, {"lock:" + lock, "hello", "forever"}}, signals);
    ASSERT_TRUE(std::holds_alternative<EventLine>(worker->next()));
    EXPECT_NE(flock(file, LOCK_EX | LOCK_NB), 0);
  }
  EXPECT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  close(file);
  std::remove(lock.c_str());
}

TEST(WorkerProcess, TimesOutWhenNothingHappens) {
  SignalSource signals;
  auto worker = WorkerProcess::start({RETORT_FAKE_WORKER, {"forever"}}, signals);
  EXPECT_TRUE(std::holds_alternative<TimedOut>(worker->next(std::chrono::milliseconds(0))));
}

TEST(FindWorker, LooksBesideTheProgramThenInLibexec) {
  std::string root = testing::TempDir() + "find-worker-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::filesystem::path bin = root + "/bin", libexec = root + "/libexec";
  std::filesystem::create_directories(bin);
  std::filesystem::create_directories(libexec);
  const auto install = [](const std::filesystem::path& path) {
    std::ofstream(path) << "#!/bin/sh\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  };
  const auto missing = find_worker(bin / "retort");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.errors().at(0).message,
            "no program 'retort-worker' in '" + bin.string() + "' or '" + libexec.string() + "'");
  install(libexec / "retort-worker");
  EXPECT_EQ(*find_worker(bin / "retort"), libexec / "retort-worker");
  install(bin / "retort-worker");
  EXPECT_EQ(*find_worker(bin / "retort"), bin / "retort-worker");
  std::filesystem::remove_all(root);
}

TEST(AskWorker, GivesBackTheAnswer) {
  const auto answer =
      ask_worker({RETORT_FAKE_WORKER, {"hello", "read", "answer:x", "finished:0"}}, {{"request", "versions"}});
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
  const auto silent = ask_worker({RETORT_FAKE_WORKER, {"hello", "finished:0"}}, {{"request", "versions"}});
  EXPECT_EQ(silent.errors().at(0).message, "the worker gave no answer");
}

}  // namespace
}  // namespace runner
