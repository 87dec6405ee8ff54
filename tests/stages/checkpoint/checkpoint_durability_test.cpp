// Checkpoints after kills, power cuts and failed writes.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "runner/shared/disk/fault.h"
#include "runner/shared/disk/write_error.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "tests/support/checkpoints_fixture.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/power_cut_storage.h"
#include "tests/support/training_states.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::Fault;
using runner::FaultyStorage;

using CheckpointDurability = CheckpointsTest;

/// Records the order in which a save writes to the disk; a power cut loses everything that was not
/// flushed before.
class Journal : public ForwardingStorage {
 public:
  int create(const fs::path& path) override {
    return note("create", path), ForwardingStorage::create(path);
  }
  int sync(int file) override {
    return note("sync", fs::read_symlink("/proc/self/fd/" + std::to_string(file))),
           ForwardingStorage::sync(file);
  }
  int rename(const fs::path& from, const fs::path& to) override {
    return note("rename", from), ForwardingStorage::rename(from, to);
  }
  int make_folder(const fs::path& path) override {
    return note("folder", path), ForwardingStorage::make_folder(path);
  }
  std::vector<std::string> done;

 private:
  void note(const std::string& action, const fs::path& path) {
    done.push_back(action + " " + path.filename().string());
  }
};

TEST_F(CheckpointDurability, FlushesThenRenamesThenUpdatesPointers) {
  Journal journal;
  checkpoints({}, journal).save(training_state(1));
  // The files of the draft are flushed in the order of the folder's listing, which varies.
  const auto last = std::ranges::find(journal.done, "sync .step-00000001.part");
  const auto written = std::ranges::find(journal.done, "create manifest.json");
  ASSERT_LT(written, last);
  ASSERT_NE(last, journal.done.end());
  std::ranges::sort(written + 1, last);
  EXPECT_EQ(journal.done,
            (Names{"folder checkpoints", "sync " + base_.path().filename().string(),
                   "folder .step-00000001.part", "create model.safetensors",
                   "create optimizer.safetensors", "create state.json", "create manifest.json",
                   "sync manifest.json", "sync model.safetensors", "sync optimizer.safetensors",
                   "sync state.json", "sync .step-00000001.part", "rename .step-00000001.part",
                   "sync checkpoints", "create latest.part", "sync latest.part",
                   "rename latest.part", "sync checkpoints"}));
}

/// Runs `body` in a child process. Returns the signal that ended it, or 0.
template <typename Body>
int signal_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_F(CheckpointDurability, KillAtAnyPointLeavesTheOldOrNewCheckpointIntact) {
  const CheckpointOptions options{.keep_last = 1};
  std::int64_t points = 0, old_ones = 0;
  for (bool was_killed = true; was_killed; ++points) {
    fs::remove_all(folder());
    checkpoints(options).save(training_state(1, 0.5));
    checkpoints(options).save(training_state(2, 0.6));
    const int signal = signal_of_child([&] {
      FaultyStorage storage(unflushed_, {Fault::Point::kAny, points + 1, Fault::Action::kKill});
      checkpoints(options, storage).save(training_state(3, 0.4));
    });
    was_killed = signal == SIGKILL;
    ASSERT_TRUE(was_killed || signal == 0) << "at " << points;

    const auto found = checkpoints(options).load_latest();
    ASSERT_TRUE(found) << "at " << points;
    const bool is_old = found->state.step == 2;
    expect_same(found->state, is_old ? training_state(2, 0.6) : training_state(3, 0.4));
    old_ones += is_old ? 1 : 0;
    EXPECT_TRUE(checkpoints(options).load_best()) << "at " << points;
    for (const runner::CheckpointName& name : runner::list_checkpoints(folder())) {
      EXPECT_NO_THROW(read_checkpoint(folder() / to_text(name))) << "at " << points;
    }

    checkpoints(options).save(training_state(4, 0.3));
    EXPECT_EQ(entries(), (Names{"best", "latest", "step-00000004"})) << "at " << points;
  }
  EXPECT_GT(old_ones, 15);           // killed while it was built,
  EXPECT_GT(points, old_ones + 15);  // and while pointers were set and spare ones removed
}

// A finished training saves nothing more, so an interrupted last save is completed when the
// training is resumed.
TEST_F(CheckpointDurability, ResumedTrainingFinishesAnInterruptedLastSave) {
  const CheckpointOptions options{.keep_last = 1};
  const auto save_earlier = [&] {
    fs::remove_all(folder());
    checkpoints(options).save(training_state(1, 0.5));
    checkpoints(options).save(training_state(2, 0.6));
  };
  for (const Fault::Action action :
       {Fault::Action::kKill, Fault::Action::kFail, Fault::Action::kFull}) {
    int finished = 0;
    for (std::int64_t point = 1; point <= 60; ++point) {
      SCOPED_TRACE(point);
      save_earlier();
      signal_of_child([&] {
        FaultyStorage storage(unflushed_, {Fault::Point::kAny, point, action});
        try {
          checkpoints(options, storage).save(training_state(3, 0.4));
        } catch (const runner::WriteError&) {
        }
      });
      const bool is_latest = checkpoints(options).load_latest()->state.step == 3;
      if (is_latest) EXPECT_EQ(checkpoints(options).load_best()->state.step, 3);
      const Continuation found = checkpoints(options).load_to_continue();
      EXPECT_EQ(found.damaged, Names());
      finished += is_latest ? 1 : 0;
      EXPECT_EQ(entries(), is_latest ? (Names{"best", "latest", "step-00000003"})
                                     : (Names{"best", "latest", "step-00000001", "step-00000002"}));
      EXPECT_EQ(pointer("best"), is_latest ? "step-00000003\n" : "step-00000001\n");
    }
    EXPECT_GT(finished, 5);
  }
}

TEST_F(CheckpointDurability, KillDuringTheFirstSaveLeavesNoCheckpointOrTheNewOne) {
  for (std::int64_t point = 1;; ++point) {
    fs::remove_all(folder());
    const int signal = signal_of_child([&] {
      FaultyStorage storage(unflushed_, {Fault::Point::kAny, point, Fault::Action::kKill});
      checkpoints({}, storage).save(training_state(1, 0.5));
    });
    if (signal == 0) break;
    const Continuation continuation = checkpoints().load_to_continue();
    EXPECT_EQ(continuation.damaged, Names()) << "at " << point;
    if (const auto& found = continuation.from) {
      expect_same(found->state, training_state(1, 0.5));
      EXPECT_EQ(pointer("best"), pointer("latest")) << "at " << point;
    }
    checkpoints().save(training_state(2, 0.4));
    EXPECT_EQ(entries(), (Names{"best", "latest", "step-00000002"})) << "at " << point;
  }
}

TEST_F(CheckpointDurability, PowerCutAtAnyPointLeavesTheOldOrNewCheckpointIntact) {
  checkpoints().save(training_state(1, 0.5));
  PowerCutStorage storage(base_.path());
  bool is_done = false;
  storage.after_each_call = [&] {
    for (const auto luck : {PowerCutStorage::Luck::kNone, PowerCutStorage::Luck::kNames}) {
      const TemporaryFolder left;
      storage.leave(left.path(), luck);
      const auto found = Checkpoints(left / "checkpoints", {}).load_latest();
      ASSERT_TRUE(found);
      expect_same(found->state, found->state.step == 1 && !is_done ? training_state(1, 0.5)
                                                                   : training_state(2, 0.4));
    }
  };
  checkpoints({}, storage).save(training_state(2, 0.4));
  is_done = true;
  storage.after_each_call();
}

TEST_F(CheckpointDurability, FirstCheckpointAndItsFolderSurviveAPowerCut) {
  PowerCutStorage storage(base_.path());
  checkpoints({}, storage).save(training_state(1, 0.5));
  const TemporaryFolder left;
  storage.leave(left.path());
  const auto found = Checkpoints(left / "checkpoints", {}).load_best();
  ASSERT_TRUE(found);
  expect_same(found->state, training_state(1, 0.5));
}

TEST_F(CheckpointDurability, FailureAtAnyPointLeavesTheOldCheckpointAndNoTemporaryFile) {
  for (const Fault::Action action : {Fault::Action::kFail, Fault::Action::kFull}) {
    int failed = 0;
    for (std::int64_t point = 1; point <= 60; ++point) {
      fs::remove_all(folder());
      checkpoints().save(training_state(1, 0.5));
      FaultyStorage storage(unflushed_, {Fault::Point::kAny, point, action});
      bool is_saved = true;
      try {
        checkpoints({}, storage).save(training_state(2, 0.6));
      } catch (const runner::WriteError& error) {
        is_saved = false;
        ++failed;
        if (action == Fault::Action::kFull)
          EXPECT_EQ(error.code, runner::ErrorCode::kDiskFull) << "at " << point;
      }
      const auto found = checkpoints().load_latest();
      if (is_saved) EXPECT_EQ(found->state.step, 2) << "at " << point;
      const Names names = entries();
      const bool has_part = std::ranges::any_of(
          names, [](const std::string& name) { return name.ends_with(".part"); });
      // The one call that fails may be the one that cleans up.
      EXPECT_FALSE(action == Fault::Action::kFull && has_part) << "at " << point;
    }
    EXPECT_GT(failed, 15);
  }
}

}  // namespace
}  // namespace stages
