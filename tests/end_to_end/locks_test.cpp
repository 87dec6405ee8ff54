// End-to-end tests of several processes that work on one run, on a file system without locks.

#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class WithoutLocks : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  /// Runs `line` with a flock(2) that fails for every file as unsupported.
  Ended shell(const std::string& line) const {
    return run_shell("export LD_PRELOAD=" RETORT_WRITING_CALLS
                     " NO_FLOCK=37 PATH=" RETORT_BINARY_DIR "/bin:$PATH; " +
                         line,
                     folder_.path());
  }
  /// The number of lines of metrics.jsonl, except memory metrics.
  int lines() const {
    int count = 0;
    std::istringstream all(file_text(folder_ / "run/metrics.jsonl"));
    for (std::string line; std::getline(all, line);)
      count += line.find("\"memory/") == line.npos ? 1 : 0;
    return count;
  }
  static constexpr const char* kRun =
      "retort run quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
      "model.num_hidden_layers=1 train.batch_size=8 run.dir=run -q ";
  SharedFolder folder_;
};

TEST_F(WithoutLocks, ActiveRunIsNotResumed) {
  const Ended ended = shell(
      std::string(kRun) +
      "train.epochs=5000 & run=$!; while [ ! -e run/nodes/train/checkpoints/latest ]; do sleep "
      "0.02; done; retort resume run; echo $? >busy; retort runs ls . >listed; kill -KILL $run; "
      "wait $run; retort runs ls . >listed_later; true");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(file_text(folder_ / "busy"), "69\n");
  EXPECT_THAT(ended.err, HasSubstr("error[E0805]: the run '"));
  EXPECT_THAT(ended.err, HasSubstr("or stop it (process "));
  EXPECT_THAT(file_text(folder_ / "listed"), HasSubstr("running"));
  EXPECT_THAT(file_text(folder_ / "listed_later"), HasSubstr("interrupted"));
}

TEST_F(WithoutLocks, OnlyOneOfTwoConcurrentResumesRuns) {
  ASSERT_EQ(shell(std::string(kRun) + "train.epochs=40 train.log_every=1").exit, 0);
  const int whole = lines();
  fs::remove_all(folder_ / "run");
  ASSERT_NE(shell("export RETORT_FAULT=retort-worker/step:5:kill_both; " + std::string(kRun) +
                  "train.epochs=40 train.log_every=1")
                .exit,
            0);
  const Ended both = shell(
      "for i in 1 2; do { retort resume run -q; echo $? >exit$i; } & done; wait; sort exit1 exit2 "
      ">exits; true");
  // The second process finds the first one at work or, if it starts late, finds nothing left to do.
  const std::string exits = file_text(folder_ / "exits");
  EXPECT_TRUE(exits == "0\n69\n" ||
              (exits == "0\n0\n" && !fs::exists(folder_ / "run/.retort/resume-2")))
      << exits << both.err;
  EXPECT_EQ(lines(), whole);
}

}  // namespace
