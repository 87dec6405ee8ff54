#include "runner/parent/run/worker_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "runner/shared/disk/parked_thread.h"

namespace runner {
namespace {

bool is_line(const WorkerSet::Occurrence& occurrence) {
  const auto* of = std::get_if<NewsOf>(&occurrence);
  return of && std::holds_alternative<EventLine>(of->news);
}

TEST(WorkerSet, ProgramThatCannotBeStartedIsReported) {
  WorkerSet workers;
  const auto worker = workers.start({"/nonexistent/retort-worker"});
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.errors().at(0).message,
            "cannot start '/nonexistent/retort-worker': No such file or directory");
  EXPECT_EQ(worker.errors().at(0).code, ErrorCode::kWorkerMissing);
}

struct Ended {
  std::string printed;
  int exit = -1;
};

/// The output and exit code of the only worker of a set.
Ended end_of(WorkerSet& workers) {
  Ended ended;
  for (;;) {
    const auto occurrence = workers.next();
    const auto* of = std::get_if<NewsOf>(&occurrence);
    if (!of) continue;
    if (const auto* output = std::get_if<OutputText>(&of->news)) ended.printed += output->text;
    if (const auto* exit = std::get_if<WorkerExit>(&of->news)) {
      ended.exit = exit->exit;
      return ended;
    }
  }
}

std::string environment_of_a_worker(std::vector<std::string> variables = {}) {
  WorkerSet workers;
  const auto worker = workers.start(
      {.program = "/usr/bin/env", .arguments = {}, .variables = std::move(variables)});
  return worker ? end_of(workers).printed : worker.errors().at(0).message;
}

// The older thread stands for those that a GPU's driver starts.
TEST(WorkerSet, ExitIsSeenEvenIfAnOlderThreadGetsTheSignal) {
  std::promise<void> may_end;
  std::thread older([ended = may_end.get_future()] { ended.wait(); });
  {
    WorkerSet workers;
    ASSERT_TRUE(workers.start({.program = "/bin/true"}));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::optional<WorkerExit> exit;
    while (!exit && std::chrono::steady_clock::now() < deadline) {
      const auto occurred = workers.next(std::chrono::seconds(1));
      const auto* news = std::get_if<NewsOf>(&occurred);
      if (!news) continue;
      if (const auto* ended = std::get_if<WorkerExit>(&news->news)) exit = *ended;
    }
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->exit, 0);
  }
  may_end.set_value();
  older.join();
}

TEST(WorkerSet, ThreadsSleepUnlessTheUserSetsSpinning) {
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  EXPECT_THAT(environment_of_a_worker(), testing::HasSubstr("GOMP_SPINCOUNT=1000\n"));
  setenv("GOMP_SPINCOUNT", "7", 1);
  EXPECT_THAT(environment_of_a_worker(), testing::HasSubstr("GOMP_SPINCOUNT=7\n"));
  unsetenv("GOMP_SPINCOUNT");
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_THAT(environment_of_a_worker(), testing::Not(testing::HasSubstr("GOMP_SPINCOUNT")));
  unsetenv("OMP_WAIT_POLICY");
}

TEST(WorkerSet, WorkerVariablesReplaceInheritedOnes) {
  setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  setenv("CUDA_VISIBLE_DEVICES_OF_OTHERS", "2", 1);
  const std::string all = "\n" + environment_of_a_worker({"CUDA_VISIBLE_DEVICES=GPU-1"});
  EXPECT_THAT(all, testing::HasSubstr("\nCUDA_VISIBLE_DEVICES=GPU-1\n"));
  EXPECT_THAT(all, testing::HasSubstr("\nCUDA_VISIBLE_DEVICES_OF_OTHERS=2\n"));
  EXPECT_THAT(all, testing::Not(testing::HasSubstr("CUDA_VISIBLE_DEVICES=0,1")));
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("CUDA_VISIBLE_DEVICES_OF_OTHERS");
}

/// Prints what a child of this process can observe about itself.
int say_what_i_am(const std::vector<std::string>& arguments) {
  std::string open;
  for (int descriptor = 0; descriptor < 64; ++descriptor)
    if (fcntl(descriptor, F_GETFD) >= 0) open += " " + std::to_string(descriptor);
  struct sigaction pipe {};
  sigaction(SIGPIPE, nullptr, &pipe);
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  const char* const device = getenv("CUDA_VISIBLE_DEVICES");
  dprintf(STDOUT_FILENO, "%s; open:%s; device %s; %s, %s, %s\n", arguments.at(0).c_str(),
          open.c_str(), device ? device : "none",
          getpgid(0) == getpid() ? "leads its group" : "in our group",
          pipe.sa_handler == SIG_DFL ? "dies of SIGPIPE" : "ignores SIGPIPE",
          sigismember(&blocked, SIGTERM) ? "hears nothing" : "hears SIGTERM");
  return 7;
}

TEST(WorkerSet, BodyIsRunLikeAProgram) {
  const Descriptor left_open(fcntl(STDIN_FILENO, F_DUPFD, 40));
  WorkerSet workers;
  const auto worker = workers.start({.program = "/nonexistent",
                                     .arguments = {"word"},
                                     .variables = {"CUDA_VISIBLE_DEVICES=GPU-1"},
                                     .body = say_what_i_am});
  ASSERT_TRUE(worker) << worker.errors().at(0).message;
  const Ended ended = end_of(workers);
  EXPECT_EQ(ended.exit, 7);
  EXPECT_EQ(ended.printed,
            "word; open: 0 1 2 3; device GPU-1; leads its group, dies of SIGPIPE, hears SIGTERM\n");
  EXPECT_EQ(getenv("CUDA_VISIBLE_DEVICES"), nullptr) << "it has its own environment";
}

// Another thread may hold a lock when this process is copied, and nothing would release it in the
// copy.
TEST(WorkerSet, ProgramIsRunInsteadOfABodyIfThereIsAnotherThread) {
  WorkerSet workers;
  std::promise<void> end;
  std::thread other(
      [ended = end.get_future()] { ended.wait(); });  // started after the set, or it would receive
                                                      // the set's signals
  const auto worker =
      workers.start({.program = "/bin/echo", .arguments = {"a program"}, .body = say_what_i_am});
  ASSERT_TRUE(worker) << worker.errors().at(0).message;
  EXPECT_EQ(end_of(workers).printed, "a program\n");
  end.set_value();
  other.join();
}

TEST(WorkerSet, BodyIsRunIfTheOtherThreadIsParked) {
  WorkerSet workers;
  const ParkedThread busy(std::chrono::milliseconds(0), [] {
    const std::unique_ptr<std::string> text(new std::string(1000, 'x'));
    return text->size() == 1000;
  });
  for (int i = 0; i < 50; ++i) {
    const auto worker =
        workers.start({.program = "/nonexistent", .arguments = {"word"}, .body = say_what_i_am});
    ASSERT_TRUE(worker) << worker.errors().at(0).message;
    EXPECT_THAT(end_of(workers).printed, testing::StartsWith("word; open: 0 1 2 3; "));
    workers.remove(**worker);
  }
}

TEST(WorkerSet, DiesWithItsParent) {
  std::string lock = testing::TempDir() + "worker-lock-XXXXXX";
  const int file = mkstemp(lock.data());
  const pid_t parent = fork();
  if (parent == 0) {
    WorkerSet workers;
    const auto worker = workers.start({RETORT_FAKE_WORKER, {"lock:" + lock, "hello", "forever"}});
    while (!is_line(workers.next())) {
    }
    _exit(0);  // without stopping the worker
  }
  waitpid(parent, nullptr, 0);
  alarm(20);
  EXPECT_EQ(flock(file, LOCK_EX), 0);  // free only when the worker is gone
  alarm(0);
  close(file);
  std::remove(lock.c_str());
}

TEST(WorkerSet, DestructionKillsTheWorkers) {
  std::string lock = testing::TempDir() + "worker-lock-XXXXXX";
  const int file = mkstemp(lock.data());
  {
    WorkerSet workers;
    const auto worker = workers.start({RETORT_FAKE_WORKER, {"lock:" + lock, "hello", "forever"}});
    ASSERT_TRUE(is_line(workers.next()));
    EXPECT_NE(flock(file, LOCK_EX | LOCK_NB), 0);
  }
  EXPECT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  close(file);
  std::remove(lock.c_str());
}

TEST(WorkerSet, TimesOutWhenNothingHappens) {
  WorkerSet workers;
  const auto worker = workers.start({RETORT_FAKE_WORKER, {"forever"}});
  EXPECT_TRUE(std::holds_alternative<Timeout>(workers.next(std::chrono::milliseconds(0))));
}

TEST(WorkerSet, NewsNamesItsWorker) {
  WorkerSet workers;
  WorkerProcess* const a = *workers.start({RETORT_FAKE_WORKER, {"line:a", "forever"}});
  WorkerProcess* const b = *workers.start({RETORT_FAKE_WORKER, {"line:b", "exit:3"}});
  std::vector<std::string> told;
  for (int i = 0; i < 3; ++i) {
    const auto occurrence = workers.next();
    const auto& [worker, news] = std::get<NewsOf>(occurrence);
    const auto* line = std::get_if<EventLine>(&news);
    const auto* end = std::get_if<WorkerExit>(&news);
    told.push_back((worker == a   ? "a "
                    : worker == b ? "b "
                                  : "? ") +
                   (line ? line->text : std::to_string(end->exit)));
  }
  std::ranges::sort(told);
  EXPECT_EQ(told, (std::vector<std::string>{"a a", "b 3", "b b"}));
}

TEST(WorkerSet, RemovedWorkerIsGoneAndSendsNoNews) {
  WorkerSet workers;
  WorkerProcess* const a = *workers.start({RETORT_FAKE_WORKER, {"line:a", "line:more", "forever"}});
  ASSERT_TRUE(is_line(workers.next()));
  workers.remove(*a);
  EXPECT_TRUE(std::holds_alternative<Timeout>(workers.next(std::chrono::milliseconds(0))));
}

TEST(WorkerSet, ExitIsTheLastNews) {
  WorkerSet workers;
  ASSERT_TRUE(workers.start({RETORT_FAKE_WORKER, {"line:a", "out:b", "exit:0"}}));
  std::size_t told = 0;
  for (bool has_ended = false; !has_ended; ++told) {
    const auto occurrence = workers.next();
    has_ended = std::holds_alternative<WorkerExit>(std::get<NewsOf>(occurrence).news);
  }
  EXPECT_EQ(told, 3u);
  EXPECT_TRUE(std::holds_alternative<Timeout>(workers.next(std::chrono::milliseconds(0))));
}

TEST(FindWorker, SearchesTheProgramsFolderThenLibexec) {
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

}  // namespace
}  // namespace runner
