// End-to-end tests of restricted systems: few open files, no processes, a small stack, no temporary
// folder, no /proc. The programs work, or report what is missing.

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

/// Closes files that the test runner may have left open, since they would count toward the limit.
constexpr const char* kAlone = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ";

using testing::HasSubstr;
using testing::Not;

class SystemLimits : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 2 --per-class 4 --size 24 -q",
                     folder_.path())
                  .exit,
              0);
    folder_.keep();
  }
  /// Runs each verb after the shell command `limit`, in a shell started by `around`; returns the
  /// number of verbs that succeeded.
  int ended_well(const std::string& limit, const std::string& around = "bash -c") const {
    const std::string options =
        " data.root=photos data.image_size=24 batch_size=4 epochs=1 threads=1 -q ";
    int well = 0;
    for (const std::string& verb :
         {"validate classify" + options, "plan classify" + options,
          "run classify run.dir=run" + options, "sweep classify seed=1,2 sweep.dir=sweep" + options,
          std::string("runs ls ."), std::string("doctor"),
          std::string("data make image_folder --out made --classes 2 --per-class 2 -q")}) {
      const Ended ended =
          run_shell("rm -rf run sweep made; timeout -k 5 60 " + around + " '" + kAlone + limit +
                        "; exec " + RETORT_BINARY_DIR "/bin/retort " + verb + "'",
                    folder_.path());
      EXPECT_TRUE(ended.exit < 124 && ended.exit != 70)
          << limit << ": " << verb << ": " << ended.exit << ended.err;
      EXPECT_THAT(ended.err,
                  Not(testing::AnyOf(HasSubstr("should not happen"), HasSubstr("please report"),
                                     HasSubstr("terminate called"))))
          << limit << ": " << verb;
      if (ended.exit != 0)
        EXPECT_THAT(ended.out + ended.err, HasSubstr("error[E")) << limit << ": " << verb;
      well += ended.exit == 0 ? 1 : 0;
    }
    return well;
  }
  SharedFolder folder_;
};

TEST_F(SystemLimits, LowOpenFileLimitIsHandled) {
  for (const int limit : {4, 6, 8, 11, 14, 18}) ended_well("ulimit -n " + std::to_string(limit));
}

TEST_F(SystemLimits, SmallStackIsHandled) { ended_well("ulimit -s 64"); }

TEST_F(SystemLimits, TemporaryFolderIsNotNeeded) {
  EXPECT_EQ(ended_well("export TMPDIR=/nonexistent"), 7);
  EXPECT_EQ(ended_well("export TMPDIR=/proc/1"), 7);
}

TEST_F(SystemLimits, MissingProcIsHandled) {
  const std::string hidden = "mount -t tmpfs none /proc";
  if (run_shell("unshare -rm sh -c '" + hidden + "'", folder_.path()).exit != 0)
    GTEST_SKIP() << "cannot mount here";
  ended_well(hidden, "unshare -rm bash -c");
}

TEST_F(SystemLimits, ProcessLimitIsHandled) {
  if (geteuid() != 0 || run_shell("command -v setpriv", folder_.path()).exit != 0)
    GTEST_SKIP()
        << "the process limit applies only to other users, and only root can switch to one";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  // Runs as another user who can read LibTorch, wherever it is.
  const std::string other =
      "setpriv --reuid=54321 --regid=54321 --clear-groups --inh-caps=+dac_override "
      "--ambient-caps=+dac_override bash -c";
  if (run_shell(other + " true", folder_.path()).exit != 0)
    GTEST_SKIP() << "cannot run as another user here";
  for (const int limit : {0, 1, 2, 3, 4, 6})
    ended_well("ulimit -u " + std::to_string(limit), other);
}

}  // namespace
