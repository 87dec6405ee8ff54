// End-to-end tests of `retort watch`.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kProgram[] = RETORT_BINARY_DIR "/bin/retort";

class Watch : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 2 --per-class 4 --size 32 -q",
                     folder_.path())
                  .exit,
              0);
    folder_.keep();
  }
  static std::string classify(const std::string& verb) {
    return std::string(kProgram) + " " + verb +
           " classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 ";
  }
  Ended shell(const std::string& command) const { return run_shell(command, folder_.path()); }
  SharedFolder folder_;
};

TEST_F(Watch, FollowsTheSweepOfAnotherProcessUntilItEnds) {
  const Ended both = shell(classify("sweep") +
                           "seed=1,2 train.epochs=3 sweep.dir=s >/dev/null 2>&1 & sweep=$!\n"
                           "until [ -e s/sweep.jsonl ]; do sleep 0.05; done; " +
                           kProgram + " watch s; watched=$?; wait $sweep; exit $watched");
  EXPECT_EQ(both.exit, 0) << both.err;
  EXPECT_THAT(both.out,
              AllOf(HasSubstr("trial 1  waiting\n"), HasSubstr("trial 0  finished  evaluate  "),
                    HasSubstr("trial 1  finished  evaluate  "), Not(HasSubstr("\x1b"))));
  const json seen = json::parse(retort("watch s --json", folder_.path()).out)["result"];
  EXPECT_EQ(seen["trials"][1]["state"], "finished");
  EXPECT_EQ(seen["trials"][1]["run"]["status"], "finished");
  const Ended once = retort("watch s --once", folder_.path());
  EXPECT_THAT(once.out,
              AllOf(HasSubstr("trial  state     metric  "), HasSubstr("2 trials: 2 finished\n")));
}

TEST_F(Watch, RedrawsItsTableOnATerminal) {
  if (shell("command -v script").exit != 0)
    GTEST_SKIP() << "script(1), which creates terminals, is not installed";
  const Ended swept = shell("TERM=xterm script -qec \"" + classify("sweep") +
                            "seed=1,2 train.epochs=3 sweep.dir=s\" /dev/null");
  EXPECT_EQ(swept.exit, 0) << swept.out;
  EXPECT_THAT(swept.out, AllOf(HasSubstr("trial  state    metric  "), HasSubstr("\x1b[J"),
                               HasSubstr("trial 1 finished in ")));
  const Ended watched =
      shell("TERM=xterm script -qec \"" + std::string(kProgram) + " watch s/0\" /dev/null");
  EXPECT_EQ(watched.exit, 0) << watched.out;
  EXPECT_THAT(watched.out, testing::StartsWith("finished  evaluate  "));
}

TEST_F(Watch, FolderWithoutRunsIsRejected) {
  const Ended refused = retort("watch photos", folder_.path());
  EXPECT_EQ(refused.exit, 66);
  EXPECT_EQ(refused.err,
            "error[E0806]: 'photos' contains neither a run nor a sweep\n"
            "  help: give the folder that `retort run` or `retort sweep` printed\n");
}

TEST_F(Watch, SignalStopsOnlyTheWatcher) {
  const Ended stopped =
      shell(classify("sweep") +
            "seed=1,2 train.epochs=2 sweep.dir=s >/dev/null 2>&1 & sweep=$!\n"
            "until [ -e s/sweep.jsonl ]; do sleep 0.05; done; " +
            kProgram +
            " watch s & watch=$!; sleep 0.5; kill -TERM $watch; wait $watch; watched=$?\n"
            "wait $sweep && exit $watched");
  EXPECT_EQ(stopped.exit, 143) << "the watcher stopped and the sweep finished";
}

}  // namespace
