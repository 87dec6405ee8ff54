#include "stages/ranks/rendezvous.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/ranks/silent_machine.h"
#include "tests/support/free_port.h"
#include "tests/support/ignored_sigpipe.h"

namespace stages {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

class Rendezvous : public testing::Test {
 protected:
  // The groups run in threads of one process. This disables a log of LibTorch that does not support
  // that.
  static void SetUpTestSuite() {
    run_as_ranks(1, [](const runner::RankOfRun&) {});
  }

  runner::Meeting meeting_ = {.host = "127.0.0.1", .port = free_port(), .job = "7", .seconds = 60};
  Json traits_ = {{"host", "here"}, {"libtorch", "2.11.0"}};
  std::chrono::seconds timeout_ = kCollectiveTimeout;

  /// Returns the error of one of `size` ranks at its rendezvous, or an empty string if it has met
  /// the others and completed `then`.
  std::string come(int rank, int size, const runner::Meeting& meeting, const Json& traits,
                   const std::function<void(RankGroup&)>& then = {}) {
    try {
      const auto group = meet_ranks(
          {.rank = rank, .size = size}, meeting, traits,
          /*is_canceled=*/[] { return false; }, timeout_);
      if (then) then(*group);
      return {};
    } catch (const runner::StageError& error) {
      EXPECT_THAT(error.help, Not(testing::IsEmpty()));
      return error.what();
    }
  }

  /// Runs all ranks of a rendezvous; `change` may make one of them differ.
  std::vector<std::string> all(int size,
                               const std::function<void(int, runner::Meeting&, Json&)>& change = {},
                               const std::function<void(RankGroup&)>& then = {}) {
    std::vector<std::string> said(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        runner::Meeting meeting = meeting_;
        Json traits = traits_;
        if (change) change(rank, meeting, traits);
        said[static_cast<std::size_t>(rank)] = come(rank, size, meeting, traits, then);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return said;
  }
};

TEST_F(Rendezvous, RanksThatMeetAreConnected) {
  const auto said = all(3, {}, [](RankGroup& group) {
    at::Tensor one = torch::ones({2});
    group.sum(one);
    EXPECT_TRUE(one.equal(torch::full({2}, 3)));
    EXPECT_EQ(group.text_of_first(std::to_string(group.rank())), "0");
  });
  for (const std::string& text : said) EXPECT_EQ(text, "");
}

TEST_F(Rendezvous, VanishedMachineIsDetected) {
  const std::set<int> before = open_connections();
  const auto said = all(2, {}, [&](RankGroup& group) {
    group.wait_for_all();
    if (group.rank() == 1) return;
    int limited = 0;
    for (const int one : open_connections()) {
      if (before.contains(one)) continue;
      int milliseconds = 0, is_alive = 0;
      socklen_t size = sizeof(int);
      ASSERT_EQ(getsockopt(one, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &size), 0);
      ASSERT_EQ(getsockopt(one, SOL_SOCKET, SO_KEEPALIVE, &is_alive, &size), 0);
      limited += milliseconds == 1000 * kSilence.count() && is_alive == 1;
    }
    EXPECT_GT(limited, 0);
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST_F(Rendezvous, MissingRankIsReported) {
  meeting_.seconds = 1;
  std::vector<std::string> said(2);
  std::thread first([&] {
    runner::Meeting longer = meeting_;
    longer.seconds = 3;  // keeps the store until the other rank has read it
    said[0] = come(0, 4, longer, traits_);
  });
  said[1] = come(2, 4, meeting_, traits_);
  first.join();
  for (const std::string& text : said) {
    EXPECT_THAT(text, HasSubstr("ranks 1, 3 of 4 did not reach"));
    EXPECT_THAT(text, HasSubstr(std::to_string(meeting_.port)));
  }
}

TEST_F(Rendezvous, RankNumberMustBeUnique) {
  std::string said;
  const auto others = all(2, {}, [&](RankGroup& group) {
    if (group.rank() == 1) said = come(1, 2, meeting_, traits_);
    group.wait_for_all();
  });
  EXPECT_EQ(others, std::vector<std::string>(2));
  EXPECT_THAT(said, AllOf(HasSubstr("rank 1 has already joined at 127.0.0.1:"),
                          HasSubstr(" as process " + std::to_string(getpid()) + " on "),
                          HasSubstr("or a process from an earlier launch is still running")));
}

TEST_F(Rendezvous, RankFromAnotherJobIsRejected) {
  std::string said;
  const auto others = all(2, {}, [&](RankGroup& group) {
    runner::Meeting other = meeting_;
    other.job = "8";
    if (group.rank() == 1) said = come(1, 2, other, traits_);
    group.wait_for_all();
  });
  EXPECT_EQ(others, std::vector<std::string>(2));
  EXPECT_THAT(said, AllOf(HasSubstr("'7'"), HasSubstr("'8'")));
}

/// A store like the one that torchrun keeps on its own port, which outlives the ranks.
class StoreOfLauncher {
 public:
  explicit StoreOfLauncher(runner::Meeting& meeting) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(meeting.port);
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>(meeting.host, options);
    meeting.is_served = true;
    prefix_ = "retort/" + meeting.job + "/";
  }
  /// Leaves a value in the store, as a rank at the rendezvous would.
  void set(const std::string& key, const std::string& value) const {
    store_->set(prefix_ + key, std::vector<std::uint8_t>(value.begin(), value.end()));
  }
  void wait(const std::string& key) const { store_->wait({prefix_ + key}); }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
  std::string prefix_;
};

TEST_F(Rendezvous, LateRankIsRejected) {
  const StoreOfLauncher store(meeting_);
  meeting_.seconds = 1;
  std::vector<std::thread> early;
  for (const int rank : {0, 1}) {
    early.emplace_back([&, rank] {
      EXPECT_THAT(come(rank, 3, meeting_, traits_), HasSubstr("rank 2 of 3 did not reach"));
    });
  }
  for (std::thread& thread : early) thread.join();
  EXPECT_THAT(come(2, 3, meeting_, traits_),
              testing::MatchesRegex("rank 2 joined too late: rank [01] waited 1 s for all 3 ranks "
                                    "at 127.0.0.1:[0-9]+, and has exited"));
}

TEST_F(Rendezvous, LaunchRunsASingleCommand) {
  const StoreOfLauncher store(meeting_);
  EXPECT_EQ(all(2), std::vector<std::string>(2));
  for (const std::string& text : all(2))
    EXPECT_THAT(text,
                testing::MatchesRegex(
                    "rank [01] has already joined at 127.0.0.1:[0-9]+ as process [0-9]+ on .*: two "
                    "processes have this RANK, or an earlier command of this launch used it"));
}

TEST_F(Rendezvous, RankThatGaveUpBeforeTheLastOneJoinedIsNamed) {
  const StoreOfLauncher store(meeting_);
  meeting_.seconds = 1;
  std::thread other([&] {
    store.wait("seat-0");
    store.set("gave-up", "rank 1 waited 1 s");
    store.set("seat-1", "1");
  });
  EXPECT_THAT(come(0, 2, meeting_, traits_),
              testing::MatchesRegex("not all ranks joined in time: rank 1 waited 1 s for all 2 "
                                    "ranks at 127.0.0.1:[0-9]+, and has exited"));
  other.join();
}

TEST_F(Rendezvous, RankThatStopsAfterItHasJoinedIsNamed) {
  const StoreOfLauncher store(meeting_);
  meeting_.seconds = 1;
  store.set("seat-1", "1");
  EXPECT_THAT(come(0, 2, meeting_, traits_),
              testing::MatchesRegex("rank 1 joined at 127.0.0.1:[0-9]+, but did not respond within "
                                    "1 s"));
}

TEST_F(Rendezvous, LateRankFindsNoOtherRankIfTheFirstHasExited) {
  meeting_.seconds = 1;
  EXPECT_THAT(come(0, 2, meeting_, traits_), HasSubstr("rank 1 of 2 did not reach"));
  EXPECT_THAT(come(1, 2, meeting_, traits_),
              AllOf(HasSubstr("rank 1 did not find rank 0"), HasSubstr("within 1 s")));
}

TEST_F(Rendezvous, RankOfAnEarlierStartDoesNotDisturbTheNextOne) {
  const StoreOfLauncher store(meeting_);
  runner::Meeting earlier = meeting_;
  earlier.seconds = 1;
  meeting_.job = "7, restart 1";
  std::string said;
  const auto others = all(2, {}, [&](RankGroup& group) {
    if (group.rank() == 1) said = come(1, 2, earlier, traits_);
    at::Tensor one = torch::ones({2});
    group.sum(one);
    EXPECT_TRUE(one.equal(torch::full({2}, 2)));
  });
  EXPECT_EQ(others, std::vector<std::string>(2));
  EXPECT_THAT(said, HasSubstr("rank 0 of 2 did not reach"));
}

TEST_F(Rendezvous, FirstRankFromAnotherJobCannotTakeThePort) {
  std::string said;
  const auto others = all(2, {}, [&](RankGroup& group) {
    runner::Meeting other = meeting_;
    other.job = "6";
    if (group.rank() == 1) said = come(0, 2, other, traits_);
    group.wait_for_all();
  });
  EXPECT_EQ(others, std::vector<std::string>(2));
  EXPECT_THAT(said, HasSubstr("is in use"));
}

TEST_F(Rendezvous, AllDifferencesAreReportedToAll) {
  const auto said = all(3, [](int rank, runner::Meeting&, Json& traits) {
    traits["host"] = "node" + std::to_string(rank);
    traits["recipe"] = {{"train", {{"epochs", rank == 2 ? 3 : 2}}}};
    if (rank == 1) traits["libtorch"] = "2.10.0";
  });
  for (const std::string& text : said)
    EXPECT_THAT(text, AllOf(HasSubstr("rank 1 on node1: libtorch is \"2.10.0\", but \"2.11.0\""),
                            HasSubstr("rank 2 on node2: recipe/train/epochs is 3, but 2")));
}

TEST_F(Rendezvous, PortInUseIsReported) {
  const ListeningSocket other;
  meeting_.port = other.port;
  EXPECT_THAT(come(0, 2, meeting_, traits_),
              AllOf(HasSubstr("port " + std::to_string(other.port)), HasSubstr("is in use")));
}

TEST_F(Rendezvous, UnreachableHostIsReported) {
  meeting_.seconds = 1;
  EXPECT_THAT(come(1, 2, meeting_, traits_),
              AllOf(HasSubstr("rank 1"), HasSubstr("127.0.0.1:" + std::to_string(meeting_.port)),
                    HasSubstr("within 1 s")));
}

TEST_F(Rendezvous, UnknownHostIsReported) {
  meeting_.seconds = 1;
  meeting_.host = std::string(64, 'x');  // too long for a host name, so no server is queried
  EXPECT_EQ(come(1, 2, meeting_, traits_),
            "rank 1 cannot find rank 0's machine: '" + meeting_.host + "' has no known address");
}

TEST_F(Rendezvous, RankWithAnotherWorldSizeIsRejected) {
  std::string said;
  const auto others = all(2, {}, [&](RankGroup& group) {
    if (group.rank() == 1) said = come(2, 3, meeting_, traits_);
    group.wait_for_all();
  });
  EXPECT_EQ(others, std::vector<std::string>(2));
  EXPECT_THAT(said, testing::MatchesRegex("rank 2 was started as one of 3 ranks, but the first to "
                                          "join at 127.0.0.1:[0-9]+ as one of 2"));
}

TEST_F(Rendezvous, StopEndsTheWait) {
  bool stops = false;
  const auto asked = [&] { return std::exchange(stops, true); };
  EXPECT_THROW(meet_ranks({.rank = 0, .size = 2}, meeting_, traits_, asked), runner::Canceled);
}

TEST_F(Rendezvous, RequiredTraitsAreCompared) {
  const auto said = all(3, {}, [](RankGroup& group) {
    group.require_same("the data", "5 samples");
    group.require_same("the data", group.rank() == 1 ? "6 samples" : "5 samples");
  });
  EXPECT_EQ(said[0], "");
  EXPECT_THAT(said[1], HasSubstr("rank 1 differs from rank 0 in the data: 6 samples"));
  EXPECT_EQ(said[2], "");
}

TEST_F(Rendezvous, OtherRanksLearnWhyARankEnded) {
  for (const int ending : {0, 2}) {
    meeting_.port = free_port();
    const auto said = all(3, {}, [&](RankGroup& group) {
      if (group.rank() != ending) return group.wait_for_all();
      group.say_why("its data are gone");
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == ending) continue;
      EXPECT_THAT(said[static_cast<std::size_t>(rank)],
                  HasSubstr("of the run: rank " + std::to_string(ending) + ": its data are gone"));
    }
  }
}

TEST_F(Rendezvous, RankThatDoesNotRespondIsReported) {
  for (const int silent : {0, 1, 2}) {
    meeting_.port = free_port();
    timeout_ = std::chrono::seconds(2);
    std::latch others_have_ended(2);
    const auto said = all(3, {}, [&](RankGroup& group) {
      group.begin("step 4 of 'train'");
      group.wait_for_all();
      if (group.rank() == silent) return others_have_ended.wait();
      group.begin("step 5 of 'train'");
      try {
        group.wait_for_all();
      } catch (const runner::StageError&) {
        others_have_ended.count_down();
        throw;
      }
    });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& own = said[static_cast<std::size_t>(rank)];
      if (rank == silent) EXPECT_EQ(own, "");
      else
        EXPECT_THAT(own, HasSubstr("rank " + std::to_string(silent) +
                                   " has not responded for 2 s (device.collective_timeout_seconds),"
                                   " and last took part in step 4 of 'train'"));
    }
  }
}

TEST(RankTraits, AllDifferencesAreListed) {
  const Json first = {{"a", 1}, {"b", {{"c", "x"}, {"d", {1, 2}}}}, {"host", "one"}};
  EXPECT_TRUE(differences(first, first).empty());
  const Json other = {{"a", 1}, {"b", {{"c", "y"}, {"d", {1}}}}, {"e", true}, {"host", "two"}};
  EXPECT_EQ(differences(first, other),
            (std::vector<std::string>{"b/c is \"y\", but \"x\" on rank 0",
                                      "b/d/1 is missing, but 2 on rank 0",
                                      "e is true, but missing on rank 0"}));
  Json many = first;
  for (int i = 0; i < 100; ++i) many["key" + std::to_string(i)] = std::string(1000, 'v');
  const auto lines = differences(first, many);
  EXPECT_EQ(lines.size(), 10U);
  for (const std::string& line : lines) EXPECT_LT(line.size(), 200U);
}

}  // namespace
}  // namespace stages
