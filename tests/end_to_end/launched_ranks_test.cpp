// End-to-end tests of ranks started by a launcher: one `retort` per rank, which finds the others
// through environment variables.

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/free_port.h"
#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::AllOf;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kTraining =
    "run quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
    "model.num_hidden_layers=1 train.epochs=2 train.batch_size=9 "
    "train.checkpoint.every.steps=1 train.log_every=1 device=cpu threads=1 run.dir=";

class LaunchedRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }

  /// One process that a launcher starts.
  struct Launched {
    std::string arguments;       // of retort
    std::string variables = "";  // extra environment variables, in shell syntax
  };
  /// Starts all ranks at once, as torchrun does, and waits for them.
  std::vector<Ended> launch(const std::vector<Launched>& ranks) const {
    const std::string world = "WORLD_SIZE=" + std::to_string(ranks.size()) +
                              " LOCAL_WORLD_SIZE=" + std::to_string(ranks.size()) +
                              " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port()) +
                              " RETORT_MEETING_SECONDS=60 ";
    std::vector<std::future<Ended>> started;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Launched& one = ranks[rank];
      started.push_back(std::async(std::launch::async, run_shell,
                                   world + "RANK=" + std::to_string(rank) + ' ' + one.variables +
                                       " " RETORT_BINARY_DIR "/bin/retort " + one.arguments,
                                   folder_.path()));
    }
    std::vector<Ended> ended;
    for (auto& one : started) ended.push_back(one.get());
    return ended;
  }
  std::vector<Ended> launch(int ranks, const std::string& arguments) const {
    return launch(std::vector<Launched>(static_cast<std::size_t>(ranks), {arguments}));
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }

  SharedFolder folder_;
};

TEST_F(LaunchedRanks, TrainLikeRanksStartedByOneProcess) {
  ASSERT_EQ(retort(std::string(kTraining) + "own device.count=2", folder_.path()).exit, 0);
  const auto ended = launch(2, std::string(kTraining) + "launched");
  for (const Ended& one : ended) EXPECT_EQ(one.exit, 0) << one.err;
  EXPECT_EQ(ended[0].out, "launched\n");
  EXPECT_EQ(ended[1].out, "") << "only rank 0 prints the folder";
  EXPECT_EQ(ended[1].err, "");
  EXPECT_TRUE(weights("launched") == weights("own"));
  EXPECT_THAT(file_text(folder_ / "launched/ranks/1/log.txt"), HasSubstr("epoch 2/2"));
  EXPECT_THAT(file_text(folder_ / "launched/.retort/recipe.yaml"), HasSubstr("count: 2"));
}

TEST_F(LaunchedRanks, StopWhenOneIsKilledAndCanBeResumed) {
  ASSERT_EQ(retort(std::string(kTraining) + "whole device.count=2", folder_.path()).exit, 0);
  for (const std::string rank : {"0", "1"}) {
    const std::string name = "killed-" + rank;
    const std::string fault =
        "RETORT_FAULT=retort-worker" + std::string(rank == "0" ? "" : "-1") + "/step:3:kill";
    const auto killed = launch({{kTraining + name + " memory.max_retries=0", fault},
                                {kTraining + name + " memory.max_retries=0", fault}});
    for (const Ended& one : killed) EXPECT_EQ(one.exit, 1) << one.err;
    EXPECT_THAT(killed[rank == "0" ? 0 : 1].err, HasSubstr("SIGKILL"));
    EXPECT_THAT(killed[rank == "0" ? 1 : 0].err, HasSubstr("has lost contact with another rank"));
    const auto resumed = launch(2, "resume " + name);
    for (const Ended& one : resumed) EXPECT_EQ(one.exit, 0) << one.err;
    EXPECT_TRUE(weights(name) == weights("whole"));
    EXPECT_THAT(file_text(folder_ / (name + "/ranks/1/log.txt")), HasSubstr("epoch 2/2"));
  }
}

TEST_F(LaunchedRanks, ReportTheErrorFromAnotherRank) {
  const auto ended =
      launch({{std::string(kTraining) + "failed"},
              {std::string(kTraining) + "failed", "RETORT_FAULT=retort-worker-1/step:2:fail"}});
  EXPECT_EQ(ended[0].exit, 1);
  EXPECT_THAT(ended[0].err, HasSubstr("rank 1: a test requested that this step fail"));
  EXPECT_EQ(ended[1].exit, 1);
  EXPECT_THAT(ended[1].err, HasSubstr("rank 1: a test requested that this step fail"));
}

TEST_F(LaunchedRanks, StopTogether) {
  for (const std::string shard : {"none", "optimizer"}) {
    const std::string name = "stopped-" + shard;
    const std::string endless = kTraining + name + " train.epochs=100000 memory.shard=" + shard;
    // The shell is replaced by retort, so the process ID is known in advance.
    const auto shell = [&](const std::string& rank) {
      return "sh -c 'echo $$ >" + name + rank + "; exec \"$@\"' sh ";
    };
    auto all = std::async(std::launch::async, [&] {
      return launch({{endless, shell("0")}, {endless, shell("1")}});
    });
    const fs::path metrics = folder_ / (name + "/metrics.jsonl");
    for (int i = 0; i < 3000 && (!fs::exists(metrics) || fs::file_size(metrics) == 0); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const char* const rank : {"0", "1"})
      kill(std::stoi(file_text(folder_ / (name + rank))), SIGTERM);
    const auto ended = all.get();
    EXPECT_THAT(ended, Each(Field(&Ended::exit, 75))) << ended[0].err << ended[1].err;
    EXPECT_THAT(ended[0].err, HasSubstr("retort resume " + name));
    EXPECT_EQ(ended[1].err, "");
    EXPECT_NE(weights(name), "");
  }
}

TEST_F(LaunchedRanks, RejectOptionsThatContradictTheLauncher) {
  const auto count = launch(2, std::string(kTraining) + "refused device.count=3");
  for (const Ended& one : count) {
    EXPECT_EQ(one.exit, 78);
    EXPECT_THAT(one.err, AllOf(HasSubstr("device.count is 3, but the launcher"),
                               HasSubstr("2 ranks"), HasSubstr("[/device/count]")));
  }
  const auto other = launch(
      {{std::string(kTraining) + "refused"}, {std::string(kTraining) + "refused train.epochs=3"}});
  for (const Ended& one : other) {
    EXPECT_EQ(one.exit, 69);
    EXPECT_THAT(one.err, AllOf(HasSubstr("error[E0719]"),
                               HasSubstr("recipe/train/options/epochs is 3, but 2 on rank 0")));
  }
  ASSERT_EQ(retort(std::string(kTraining) + "alone", folder_.path()).exit, 0);
  for (const std::string verb :
       {"sweep quickstart seed=1,2", "runs rerun alone", "evaluate alone run.dir=refused",
        "predict alone photos", "embed alone photos --out refused", "export alone --out refused",
        "plan quickstart", "certify quickstart", "lr-find quickstart"}) {
    for (const Ended& one : launch(2, verb)) {
      EXPECT_EQ(one.exit, 64) << verb;
      EXPECT_THAT(one.err, HasSubstr("has started 2 processes, but `retort "));
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "refused")) << "no files are written";
}

TEST_F(LaunchedRanks, RejectMachinesWithDifferentData) {
  const Ended made =
      retort("data make image_folder --out elsewhere/photos --classes 2 --per-class 9 --size 24 -q",
             folder_.path());
  ASSERT_EQ(made.exit, 0) << made.err;
  const std::string training = kTraining + (folder_ / "different-data").string();
  const auto said = launch({{training}, {training, "sh -c 'cd elsewhere && exec \"$0\" \"$@\"'"}});
  for (const Ended& one : said) EXPECT_NE(one.exit, 0) << one.err;
  EXPECT_THAT(said[1].err, AllOf(HasSubstr("error[E0719]"),
                                 HasSubstr("rank 1 differs from rank 0 in the training data: "),
                                 HasSubstr("all ranks must read the same files")));
  EXPECT_THAT(said[0].err, HasSubstr("rank 1"));
}

TEST_F(LaunchedRanks, ReportRanksThatDoNotConnect) {
  const std::string at =
      "WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 RETORT_MEETING_SECONDS=1 MASTER_PORT=" +
      std::to_string(free_port()) + " RANK=";
  const Ended first =
      run_shell(at + "0 " RETORT_BINARY_DIR "/bin/retort " + kTraining + "alone", folder_.path());
  EXPECT_EQ(first.exit, 69);
  EXPECT_THAT(first.err, HasSubstr("ranks 1, 2 of 3 did not reach 127.0.0.1:"));
  const Ended second =
      run_shell(at + "1 " RETORT_BINARY_DIR "/bin/retort " + kTraining + "alone", folder_.path());
  EXPECT_EQ(second.exit, 69);
  EXPECT_THAT(second.err, HasSubstr("rank 1 did not find rank 0 at 127.0.0.1:"));
  EXPECT_FALSE(fs::exists(folder_ / "alone"));
  const Ended wrong = run_shell(
      "RANK=3 WORLD_SIZE=3 " RETORT_BINARY_DIR "/bin/retort " + std::string(kTraining) + "alone",
      folder_.path());
  EXPECT_EQ(wrong.exit, 69);
  EXPECT_THAT(wrong.err,
              AllOf(HasSubstr("RANK is 3"), HasSubstr("MASTER_ADDR"), HasSubstr("MASTER_PORT")));
}

}  // namespace
