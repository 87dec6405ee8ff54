#include "stages/checkpoint/checkpoints.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "runner/shared/disk/write_error.h"
#include "tests/support/checkpoints_fixture.h"
#include "tests/support/durable_storage.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/refused.h"
#include "tests/support/training_states.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::StartsWith;

TEST_F(CheckpointsTest, AverageIsBestUntilItIsRemoved) {
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

TEST_F(CheckpointsTest, OldestOfEquallyGoodCheckpointsIsBest) {
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

TEST_F(CheckpointsTest, CheckpointWithAPointerIsNeverRemoved) {
  Checkpoints saved = checkpoints({.keep_last = 1, .keep_best = 0});
  saved.save(training_state(1, 0.1));
  for (int step = 2; step <= 4; ++step) saved.save(training_state(step, 0.5));
  EXPECT_EQ(entries(), (Names{"best", "latest", "step-00000001", "step-00000004"}));
  saved.save(training_state(3, 0.5));  // resumed from an earlier one
  EXPECT_EQ(pointer("latest"), "step-00000003\n");
  EXPECT_EQ(entries(),
            (Names{"best", "latest", "step-00000001", "step-00000003", "step-00000004"}));
}

TEST_F(CheckpointsTest, SavingAStepAgainDoesNotChangeTheFirstSave) {
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

TEST_F(CheckpointsTest, TrainingResumesBeforeADamagedBestCheckpoint) {
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
    const std::string wrong = "'" + (folder() / name).string() + "' does not point to a checkpoint";
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
