#include "stages/checkpoint/checkpoints.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>

#include "runner/shared/disk/fault.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "tests/support/durable_storage.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/power_cut_storage.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training_states.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::Fault;
using runner::FaultyStorage;
using testing::AllOf;
using testing::EndsWith;
using testing::StartsWith;
using Names = std::vector<std::string>;

class CheckpointsTest : public testing::Test {
 protected:
  fs::path folder() const { return base_ / "checkpoints"; }
  Checkpoints checkpoints(CheckpointOptions options = {}) {
    return Checkpoints(folder(), options, unflushed_);
  }
  Checkpoints checkpoints(CheckpointOptions options, runner::Storage& storage) const {
    return Checkpoints(folder(), options, storage);
  }
  Names entries() const {
    Names names;
    for (const auto& entry : fs::directory_iterator(folder()))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  std::string pointer(const std::string& name) const { return base_.read("checkpoints/" + name); }
  void damage(const std::string& name) const {
    base_.write("checkpoints/" + name + "/model.safetensors", "damaged");
  }

  TemporaryFolder base_;
  UnflushedStorage unflushed_;
};

TEST_F(CheckpointsTest, AverageIsTheBestUntilItIsRemoved) {
  Checkpoints all = checkpoints({.keep_last = 3, .keep_best = 2});
  for (const std::int64_t step : {10, 20, 30})
    all.save(training_state(step, 1.0 / static_cast<double>(step)));
  EXPECT_EQ(all.best(2),
            (std::vector<fs::path>{folder() / "step-00000030", folder() / "step-00000020"}));
  EXPECT_EQ(all.save_average(training_state(25, 0.01)), folder() / "average");
  EXPECT_EQ(all.load_best()->folder, folder() / "average");
  EXPECT_EQ(all.load_latest()->folder, folder() / "step-00000030");
  EXPECT_EQ(all.best(1), (std::vector<fs::path>{folder() / "step-00000030"}));
  all.save_average(training_state(27, 0.02));
  expect_same(all.load_best()->state, training_state(27, 0.02));
  EXPECT_EQ(all.load_to_continue().from->folder, folder() / "step-00000030");
  all.remove_average();
  EXPECT_EQ(all.load_best()->folder, folder() / "step-00000030");
  EXPECT_EQ(entries(),
            (Names{"best", "latest", "step-00000010", "step-00000020", "step-00000030"}));
}

TEST_F(CheckpointsTest, SavedCheckpointIsLoaded) {
  EXPECT_FALSE(checkpoints().load_latest());
  EXPECT_FALSE(checkpoints().load_best());
  EXPECT_EQ(checkpoints().save(training_state(1234, 0.5)), folder() / "step-00001234");
  EXPECT_EQ(entries(), (Names{"best", "latest", "step-00001234"}));
  const auto found = checkpoints().load_latest();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->folder, folder() / "step-00001234");
  expect_same(found->state, training_state(1234, 0.5));
  expect_same(checkpoints().load_best()->state, training_state(1234, 0.5));
}

TEST_F(CheckpointsTest, FilesAreOnDiskBeforeTheyAreRenamed) {
  DurableStorage storage;
  Checkpoints saved = checkpoints({}, storage);
  for (const std::int64_t step : {1, 2, 3})
    saved.save(training_state(step, 1.0 / static_cast<double>(step)));
  EXPECT_GE(storage.renamed, 9);  // a folder and two pointers each
  EXPECT_EQ(storage.early, Names());
}

TEST_F(CheckpointsTest, OldestOfEquallyGoodIsTheBest) {
  Checkpoints saved = checkpoints({.keep_last = 9});
  saved.save(training_state(1));
  EXPECT_EQ(pointer("best"), "");
  saved.save(training_state(2, 0.5));
  saved.save(training_state(3, 0.4));
  saved.save(training_state(4, 0.4));
  saved.save(training_state(5, 0.6));
  EXPECT_EQ(pointer("best"), "step-00000003\n");
  EXPECT_EQ(pointer("latest"), "step-00000005\n");
  checkpoints({.keep_last = 9, .higher_is_better = true}).save(training_state(6));
  EXPECT_EQ(pointer("best"), "step-00000005\n");
}

TEST_F(CheckpointsTest, OnlyTheNewestAndTheBestAreKept) {
  Checkpoints saved = checkpoints({.keep_last = 2, .keep_best = 2});
  const double metrics[] = {0.5, 0.1, 0.9, 0.2, 0.8, 0.7, 0.6};
  for (int step = 1; step <= 7; ++step) saved.save(training_state(step, metrics[step - 1]));
  EXPECT_EQ(entries(), (Names{"best", "latest", "step-00000002", "step-00000004", "step-00000006",
                              "step-00000007"}));
}

TEST_F(CheckpointsTest, CheckpointNamedByAPointerIsNeverRemoved) {
  Checkpoints saved = checkpoints({.keep_last = 1, .keep_best = 0});
  saved.save(training_state(1, 0.1));
  for (int step = 2; step <= 4; ++step) saved.save(training_state(step, 0.5));
  EXPECT_EQ(entries(), (Names{"best", "latest", "step-00000001", "step-00000004"}));
  saved.save(training_state(3, 0.5));  // resumed from an earlier one
  EXPECT_EQ(pointer("latest"), "step-00000003\n");
  EXPECT_EQ(entries(),
            (Names{"best", "latest", "step-00000001", "step-00000003", "step-00000004"}));
}

TEST_F(CheckpointsTest, SavingAStepAgainDoesNotTouchTheFirst) {
  Checkpoints saved = checkpoints({.keep_last = 2});
  saved.save(training_state(5));
  EXPECT_EQ(saved.save(training_state(5, 0.5)), folder() / "step-00000005-1");
  EXPECT_EQ(entries(), (Names{"best", "latest", "step-00000005", "step-00000005-1"}));
  EXPECT_EQ(saved.load_latest()->state.metric, 0.5);
}

TEST_F(CheckpointsTest, OnlyResumedTrainingSkipsADamagedCheckpoint) {
  Checkpoints saved = checkpoints({.keep_last = 3});
  for (int step = 1; step <= 3; ++step) saved.save(training_state(step, 1.0 / step));
  damage("step-00000003");
  const std::string damaged = (folder() / "step-00000003").string();
  EXPECT_REFUSED(saved.load_latest(), kDamagedWeights, "", damaged, "model.safetensors has 7");
  EXPECT_REFUSED(saved.load_best(), kDamagedWeights, "", damaged, "model.safetensors has 7");
  EXPECT_EQ(saved.advice("--checkpoint "),
            "intact: step-00000002, step-00000001; to use one: --checkpoint " +
                (folder() / "step-00000002").string());
  EXPECT_TRUE(saved.can_continue());
  const Continuation found = saved.load_to_continue();
  expect_same(found.from->state, training_state(2, 0.5));
  ASSERT_EQ(found.damaged.size(), 1);
  EXPECT_THAT(found.damaged[0], AllOf(testing::HasSubstr(damaged),
                                      EndsWith("; it has been renamed to damaged-step-00000003")));
  EXPECT_EQ(entries(),
            (Names{"best", "damaged-step-00000003", "latest", "step-00000001", "step-00000002"}));
  EXPECT_EQ(pointer("latest"), "step-00000002\n");
}

TEST_F(CheckpointsTest, TrainingGoesBackBeforeADamagedBestCheckpoint) {
  const double metrics[] = {0.5, 0.4, 0.1, 0.9};
  for (const std::int64_t kept : {9, 1}) {
    fs::remove_all(folder());
    Checkpoints saved = checkpoints({.keep_last = kept});
    for (int step = 1; step <= 4; ++step) saved.save(training_state(step, metrics[step - 1]));
    damage("step-00000003");
    EXPECT_EQ(saved.load_latest()->state.step, 4);
    const Continuation found = saved.load_to_continue();
    EXPECT_EQ(found.damaged.size(), 1);
    EXPECT_EQ(found.from.has_value(), kept == 9);
    EXPECT_EQ(saved.can_continue(), kept == 9);
    if (found.from) EXPECT_EQ(found.from->state.step, 2);
    // The step is saved again under its own name.
    saved.save(training_state(3, 0.1));
    EXPECT_EQ(pointer("best"), "step-00000003\n");
    EXPECT_TRUE(saved.load_to_continue().damaged.empty());
  }
}

TEST_F(CheckpointsTest, DamagedCheckpointsDoNotCountAsKept) {
  Checkpoints saved = checkpoints({.keep_last = 2});
  for (int step = 1; step <= 3; ++step) saved.save(training_state(step));
  damage("step-00000003");
  saved.save(training_state(4));
  EXPECT_EQ(entries(), (Names{"latest", "step-00000002", "step-00000003", "step-00000004"}));
  saved.save(training_state(5));
  EXPECT_EQ(entries(), (Names{"latest", "step-00000004", "step-00000005"}));
}

TEST_F(CheckpointsTest, TrainingRestartsIfAllCheckpointsAreDamaged) {
  Checkpoints saved = checkpoints({.keep_last = 2});
  for (int step = 1; step <= 2; ++step) saved.save(training_state(step));
  damage("step-00000001");
  damage("step-00000002");
  EXPECT_EQ(saved.advice("--checkpoint "), "no other checkpoint is intact");
  EXPECT_FALSE(saved.can_continue());
  const Continuation found = saved.load_to_continue();
  EXPECT_FALSE(found.from);
  ASSERT_EQ(found.damaged.size(), 2);
  EXPECT_NE(found.damaged[0].find("step-00000002"), std::string::npos);
  EXPECT_NE(found.damaged[1].find("step-00000001"), std::string::npos);
}

TEST_F(CheckpointsTest, DanglingPointerIsRejectedAndResetByResumedTraining) {
  Checkpoints saved = checkpoints({.keep_last = 2});
  for (int step = 1; step <= 2; ++step) saved.save(training_state(step, 1.0 / step));
  for (const char* name : {"latest", "best"}) {
    const std::string wrong = "'" + (folder() / name).string() + "' does not name a checkpoint";
    for (const char* text :
         {"", "step-00000001", "../../elsewhere\n", "step-00000001\nstep-00000002\n", "missing"}) {
      base_.write(std::string("checkpoints/") + name, text);
      if (text == std::string("missing")) fs::remove(folder() / name);
      const auto load = [&] {
        name == std::string("best") ? saved.load_best() : saved.load_latest();
      };
      EXPECT_REFUSED(load(), kDamagedWeights, "", wrong);
      const Continuation found = saved.load_to_continue();
      EXPECT_EQ(found.from->state.step, 2);
      ASSERT_EQ(found.damaged.size(), 1);
      EXPECT_THAT(found.damaged[0], StartsWith(wrong));
      EXPECT_EQ(pointer(name), "step-00000002\n");
    }
  }
  base_.write("checkpoints/latest", "step-00000007\n");
  const std::string wrong = "the checkpoint '" + (folder() / "step-00000007").string() +
                            "' is damaged: it has no manifest.json";
  EXPECT_REFUSED(saved.load_latest(), kDamagedWeights, "", wrong);
  const Continuation found = saved.load_to_continue();
  EXPECT_EQ(found.from->state.step, 2);
  EXPECT_EQ(found.damaged, (Names{wrong}));
}

TEST_F(CheckpointsTest, FullDiskIsReportedBeforeWriting) {
  struct Small : ForwardingStorage {
    int created = 0;
    int create(const fs::path& path) override { return ++created, ForwardingStorage::create(path); }
    std::optional<std::uint64_t> free_bytes(const fs::path&) override { return 1000; }
  } small;
  EXPECT_REFUSED(checkpoints({}, small).save(training_state(1)), kDiskFull, "", folder().string(),
                 " bytes, but only 1000 are free", "run.dir");
  EXPECT_EQ(small.created, 0);
  EXPECT_EQ(entries(), Names{});
}

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
  Names done;

 private:
  void note(const std::string& action, const fs::path& path) {
    done.push_back(action + " " + path.filename().string());
  }
};

TEST_F(CheckpointsTest, FlushesThenRenamesThenUpdatesPointers) {
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

TEST_F(CheckpointsTest, KillAtAnyPointLeavesTheOldOrNewCheckpointWhole) {
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
TEST_F(CheckpointsTest, ResumedTrainingFinishesAnInterruptedLastSave) {
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

TEST_F(CheckpointsTest, KillDuringTheFirstSaveLeavesNoneOrTheNewCheckpoint) {
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

TEST_F(CheckpointsTest, PowerCutAtAnyPointLeavesTheOldOrNewCheckpointWhole) {
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

TEST_F(CheckpointsTest, FirstCheckpointAndItsFolderSurviveAPowerCut) {
  PowerCutStorage storage(base_.path());
  checkpoints({}, storage).save(training_state(1, 0.5));
  const TemporaryFolder left;
  storage.leave(left.path());
  const auto found = Checkpoints(left / "checkpoints", {}).load_best();
  ASSERT_TRUE(found);
  expect_same(found->state, training_state(1, 0.5));
}

TEST_F(CheckpointsTest, FailureAtAnyPointLeavesTheOldOneAndNoTemporaryFile) {
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
      // The one call that fails may be the one that clears up.
      EXPECT_FALSE(action == Fault::Action::kFull && has_part) << "at " << point;
    }
    EXPECT_GT(failed, 15);
  }
}

TEST_F(CheckpointsTest, ReadOnlyFolderIsReported) {
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms{0555});
  fs::permissions(base_.path(), fs::perms{0755});
  const int status = [&] {
    const pid_t child = fork();
    if (child == 0) {
      if (geteuid() == 0 && setuid(65534) != 0) _exit(2);  // root may write anywhere
      try {
        checkpoints().save(training_state(1));
      } catch (const runner::WriteError& error) {
        const std::string expected = "cannot create '" +
                                     (folder() / ".step-00000001.part").string() +
                                     "': Permission denied";
        _exit(error.what() == expected && error.code == runner::ErrorCode::kCannotCreate ? 0 : 1);
      }
      _exit(3);
    }
    int result = 0;
    waitpid(child, &result, 0);
    return result;
  }();
  EXPECT_EQ(status, 0);
}

TEST_F(CheckpointsTest, RemovalDoesNotFollowLinks) {
  base_.write("precious/file", "x");
  fs::create_directory(folder());
  fs::create_directory_symlink(base_ / "precious", folder() / ".step-00000001.part");
  fs::create_directory(folder() / ".step-00000002.old");
  fs::create_directory_symlink(base_ / "precious", folder() / ".step-00000002.old" / "link");
  checkpoints().save(training_state(1));
  EXPECT_EQ(entries(), (Names{"latest", "step-00000001"}));
  EXPECT_EQ(base_.read("precious/file"), "x");
}

}  // namespace
}  // namespace stages
