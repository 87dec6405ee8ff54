#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/run/supervise.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {
namespace {

using testing::ElementsAre;

/// Supervises several workers at once.
class SuperviseSeveralTest : public testing::Test {
 protected:
  struct Heard {
    std::vector<std::string> said;
    std::string output;
    std::optional<Ending> ending;
  };

  void start(const std::string& name, std::vector<std::string> acts) {
    Conversation conversation;
    conversation.on_event = [this, name](const Event& event, WorkerProcess& worker) {
      if (const auto* said = std::get_if<Said>(&event)) heard_[name].said.push_back(said->line);
      if (on_event_) on_event_(name, event, worker);
    };
    conversation.on_output = [this, name](std::string_view text) { heard_[name].output += text; };
    const Diagnostics errors =
        supervision_.start({RETORT_FAKE_WORKER, std::move(acts)}, {{"for", name}}, conversation,
                           [this, name](const Ending& ending) {
                             heard_[name].ending = ending;
                             order_ += name;
                             if (on_end_) on_end_(name);
                           });
    for (const Diagnostic& error : errors) refused_.push_back(error.message);
  }

  std::function<void(const std::string&, const Event&, WorkerProcess&)> on_event_;
  std::function<void(const std::string&)> on_end_;
  std::map<std::string, Heard> heard_;
  std::string order_;  // names, in the order in which they ended
  std::vector<std::string> refused_;
  Supervision supervision_;
};

TEST_F(SuperviseSeveralTest, EachWorkerHasItsOwnConversation) {
  for (const char* name : {"a", "b", "c"}) {
    start(name, {"hello", "flood:300000", std::string("out:") + name, "echo", "flood:300000",
                 "finished:0"});
  }
  supervision_.run();
  for (const char* name : {"a", "b", "c"}) {
    const Heard& heard = heard_[name];
    EXPECT_THAT(heard.said, ElementsAre(std::string(R"({"for":")") + name + R"(","log":"info"})"));
    EXPECT_EQ(heard.output.size(), 600'002u);
    EXPECT_EQ(heard.output.substr(300'000, 2), std::string(name) + "\n");
    ASSERT_TRUE(heard.ending);
    EXPECT_EQ(heard.ending->exit, ExitCode::kDone);
  }
}

TEST_F(SuperviseSeveralTest, DeathOfOneDoesNotAffectTheOther) {
  start("a", {"hello", "read", "ready", "wait", "finished:0"});
  start("b", {"hello", "read", "die:9"});
  WorkerProcess* waiting = nullptr;
  on_event_ = [&](const std::string&, const Event&, WorkerProcess& worker) { waiting = &worker; };
  on_end_ = [&](const std::string& name) {
    if (name == "b" && waiting) waiting->signal(SIGTERM);
    else if (name == "b")
      on_event_ = [](const std::string&, const Event&, WorkerProcess& a) { a.signal(SIGTERM); };
  };
  supervision_.run();
  EXPECT_EQ(order_, "ba");
  EXPECT_EQ(heard_["b"].ending->killed_by, 9);
  EXPECT_THAT(heard_["a"].said, ElementsAre("signal 15"));
  EXPECT_TRUE(heard_["a"].ending->errors.empty());
  EXPECT_EQ(heard_["a"].ending->exit, ExitCode::kDone);
}

TEST_F(SuperviseSeveralTest, InvalidEventStopsOnlyItsWorker) {
  start("a", {"hello", "line:nonsense", "forever"});
  start("b", {"hello", "echo", "finished:0"});
  supervision_.run();
  EXPECT_EQ(heard_["a"].ending->errors.at(0).code, ErrorCode::kProtocol);
  EXPECT_TRUE(heard_["b"].ending->errors.empty());
}

TEST_F(SuperviseSeveralTest, SignalReachesAllWorkers) {
  int ready = 0;
  on_event_ = [&](const std::string&, const Event& event, WorkerProcess&) {
    if (std::holds_alternative<Ready>(event) && ++ready == 2) raise(SIGTERM);
  };
  for (const char* name : {"a", "b"})
    start(name, {"hello", "read", "ready", "wait", "finished:143"});
  supervision_.run();
  for (const char* name : {"a", "b"}) {
    EXPECT_THAT(heard_[name].said, ElementsAre("signal 15"));
    EXPECT_EQ(heard_[name].ending->exit, ExitCode::kTerminated);
  }
}

TEST_F(SuperviseSeveralTest, WorkersAreNotStartedAfterASignal) {
  on_event_ = [&](const std::string&, const Event& event, WorkerProcess&) {
    if (std::holds_alternative<Ready>(event)) raise(SIGINT);
  };
  on_end_ = [&](const std::string&) { start("b", {"hello", "finished:0"}); };
  start("a", {"hello", "read", "ready", "wait", "finished:130"});
  supervision_.run();
  EXPECT_EQ(order_, "a");
  EXPECT_THAT(refused_, ElementsAre("interrupted"));
}

TEST_F(SuperviseSeveralTest, EndOfOneWorkerMayStartAnother) {
  on_end_ = [&](const std::string& name) {
    if (name != "c")
      start(std::string(1, static_cast<char>(name[0] + 1)), {"hello", "echo", "finished:0"});
  };
  start("a", {"hello", "echo", "finished:0"});
  supervision_.run();
  EXPECT_EQ(order_, "abc");
}

TEST_F(SuperviseSeveralTest, ExceptionInAListenerStopsAllWorkers) {
  std::string lock = testing::TempDir() + "worker-lock-XXXXXX";
  const int file = mkstemp(lock.data());
  {
    Supervision supervision;
    Conversation silent, throwing;
    silent.on_event = [](const Event&, WorkerProcess&) {};
    throwing.on_event = [](const Event&, WorkerProcess&) { throw std::runtime_error("disk full"); };
    silent.on_hello = [&](const Hello&) {
      supervision.start({RETORT_FAKE_WORKER, {"hello", "read", "ready", "forever"}}, {}, throwing,
                        {});
    };
    supervision.start({RETORT_FAKE_WORKER, {"lock:" + lock, "hello", "forever"}}, {}, silent, {});
    EXPECT_THROW(supervision.run(), std::runtime_error);
  }
  EXPECT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  close(file);
  std::remove(lock.c_str());
}
}  // namespace
}  // namespace runner
