#include "runner/parent/record/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/fault.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/power_cut_storage.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;

const std::chrono::system_clock::time_point kNow{std::chrono::hours(24 * 365 * 50)};

std::string only_error(const Result<fs::path>& result) {
  if (result) return "made " + result->string();
  const Diagnostic& d = result.errors().at(0);
  return name(d.code) + " " + d.pointer + ": " + d.message;
}

class RunFolderTest : public testing::Test {
 protected:
  fs::path made(const std::string& run_dir = "") {
    const auto path = create_run_folder(run_dir, base_.path(), kNow);
    EXPECT_TRUE(path) << only_error(path);
    return *path;
  }
  static ssize_t full_disk(int, const char*, std::size_t) {
    errno = ENOSPC;
    return -1;
  }
  TemporaryFolder base_;
};

TEST_F(RunFolderTest, DefaultIsDateAndTimeWithASuffixIfItExists) {
  const fs::path first = made();
  EXPECT_THAT(first.lexically_relative(base_.path()).string(),
              MatchesRegex("outputs/[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]{2}-[0-9]{2}-[0-9]{2}"));
  EXPECT_EQ(made(), first.string() + "-1");
  EXPECT_EQ(made(), first.string() + "-2");
}

TEST_F(RunFolderTest, GivenFolderIsCreatedWithItsParents) {
  EXPECT_EQ(made("deep/down/run"), base_.path() / "deep/down/run");
  EXPECT_EQ(made((base_.path() / "absolute").string()), base_.path() / "absolute");
}

TEST_F(RunFolderTest, EmptyFolderIsUsedOnce) {
  fs::create_directory(base_.path() / "mine");
  made("mine");
  EXPECT_EQ(only_error(create_run_folder("mine", base_.path(), kNow)),
            "E0803 /run/dir: '" + (base_.path() / "mine").string() + "' already contains a run");
}

TEST_F(RunFolderTest, NonEmptyFolderIsRejectedAndLeftAlone) {
  fs::create_directories(base_.path() / "full/of things");
  EXPECT_EQ(only_error(create_run_folder("full", base_.path(), kNow)),
            "E0803 /run/dir: '" + (base_.path() / "full").string() + "' is not empty");
  EXPECT_FALSE(fs::exists(base_.path() / "full/.retort"));
}

TEST_F(RunFolderTest, FileInTheWayCannotBecomeAFolder) {
  std::ofstream(base_.path() / "file") << "x";
  EXPECT_EQ(
      only_error(create_run_folder("file", base_.path(), kNow)),
      "E0801 /run/dir: cannot create '" + (base_.path() / "file").string() + "': File exists");
  EXPECT_THAT(only_error(create_run_folder("file/below", base_.path(), kNow)),
              HasSubstr("E0801 /run/dir: cannot create"));
}

TEST_F(RunFolderTest, FullDiskAndFailingFolderAreReportedAtTheOption) {
  FaultyStorage full(disk(), {Fault::Point::kFolder, 2, Fault::Action::kFull});
  EXPECT_EQ(only_error(create_run_folder("run", base_.path(), kNow, full)),
            "E0804 /run/dir: cannot write '" + (base_.path() / "run/.retort").string() +
                "': No space left on device");
  FaultyStorage failing(disk(), {Fault::Point::kFolder, 1, Fault::Action::kFail});
  EXPECT_EQ(only_error(create_run_folder("other", base_.path(), kNow, failing)),
            "E0801 /run/dir: cannot create '" + (base_.path() / "other").string() +
                "': Input/output error");
}

TEST_F(RunFolderTest, MarksItselfAsARunFolder) {
  const fs::path path = made("run");
  RunFolder folder(path);
  const auto json = nlohmann::json::parse(base_.read("run/.retort/run.json"));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["id"], "run");
}

TEST_F(RunFolderTest, WritesMetricsAndLogLineByLine) {
  RunFolder folder(made("run"), disk(), {.level = LogLevel::kDebug});
  folder.metrics().append({"a", "loss", 0.5, 3}, 1.25);
  folder.metrics().append({"a", "l\xff", 1, 4}, 2);
  folder.log().write({.node = "a", .text = "epoch 1", .seconds = 1.5});
  folder.log().write({.level = LogLevel::kDebug, .text = "later", .seconds = 3600});
  EXPECT_EQ(base_.read("run/metrics.jsonl"),
            R"({"node":"a","name":"loss","value":0.5,"step":3,"time":1.25})"
            "\n{\"node\":\"a\",\"name\":\"l\uFFFD\",\"value\":1.0,\"step\":4,\"time\":2.0}\n");
  EXPECT_EQ(base_.read("run/log.txt"), "     1.500  info   a: epoch 1\n  3600.000  debug  later\n");
}

TEST_F(RunFolderTest, SummaryIsReplacedAtomically) {
  RunFolder folder(made("run"));
  folder.summary({{"status", "running"}});
  folder.summary({{"status", "finished"}});
  EXPECT_EQ(base_.read("run/summary.json"), "{\n  \"status\": \"finished\"\n}\n");
  EXPECT_FALSE(fs::exists(base_.path() / "run/summary.json.part"));
}

TEST_F(RunFolderTest, SummaryOnAFullDiskKeepsTheOldOne) {
  bool is_full = false;
  WritingStorage storage([&](int file, const char* data, std::size_t size) {
    return is_full ? full_disk(file, data, size) : ::write(file, data, size);
  });
  RunFolder folder(made("run"), storage);
  folder.summary({{"status", "running"}});
  is_full = true;
  EXPECT_THROW(folder.summary({{"status", "finished"}}), WriteError);
  EXPECT_EQ(base_.read("run/summary.json"), "{\n  \"status\": \"running\"\n}\n");
  EXPECT_FALSE(fs::exists(base_.path() / "run/summary.json.part"));
}

TEST_F(RunFolderTest, FullDiskErrorNamesTheFile) {
  WritingStorage storage(full_disk);
  try {
    RunFolder folder(made("run"), storage);
    FAIL();
  } catch (const WriteError& error) {
    EXPECT_EQ(error.diagnostic().code, ErrorCode::kDiskFull);
    EXPECT_EQ(error.diagnostic().message, "cannot write '" +
                                              (base_.path() / "run/.retort/run.json").string() +
                                              "': No space left on device");
    EXPECT_EQ(error.diagnostic().help, "free up space, or choose another location with run.dir");
  }
}

TEST_F(RunFolderTest, ShortWritesAreContinued) {
  WritingStorage stingy(
      [](int file, const char* data, std::size_t) { return ::write(file, data, 1); });
  RunFolder folder(made("run"), stingy);
  folder.log().write({.text = "a line"});
  EXPECT_EQ(base_.read("run/log.txt"), "     0.000  info   a line\n");
}

TEST_F(RunFolderTest, LinkInPlaceOfTheLogIsRejected) {
  const fs::path path = made("run");
  std::ofstream(base_.path() / "victim") << "precious";
  fs::create_symlink(base_.path() / "victim", path / "log.txt");
  EXPECT_THROW(RunFolder folder(path), WriteError);
  EXPECT_EQ(base_.read("victim"), "precious");
}

TEST_F(RunFolderTest, NewRunSurvivesAPowerCut) {
  for (const std::string run_dir : {"", "deep/down/run"}) {
    PowerCutStorage storage(base_.path());
    const fs::path path = *create_run_folder(run_dir, base_.path(), kNow, storage);
    RunFolder folder(path, storage);
    folder.metrics().append({"a", "x", 1, 1}, 0.5);
    folder.metrics().sync();
    folder.record("recipe.yaml", "a: 1\n");
    const TemporaryFolder left;
    storage.leave(left.path());
    const fs::path there = path.lexically_relative(base_.path());
    EXPECT_EQ(left.read(there / ".retort/recipe.yaml"), "a: 1\n");
    EXPECT_FALSE(left.read(there / ".retort/run.json").empty());
    EXPECT_FALSE(left.read(there / "metrics.jsonl").empty());
    EXPECT_TRUE(fs::exists(left.path() / there / "log.txt"));
  }
}

TEST_F(RunFolderTest, GroupedRecordsAppearOnCommit) {
  PowerCutStorage storage(base_.path());
  const fs::path path = *create_run_folder("run", base_.path(), kNow, storage);
  RunFolder folder(path, storage, {}, RunFolder::Records::kTogether);
  folder.record("recipe.yaml", "a: 1\n");
  folder.summary({{"status", "running"}});
  EXPECT_FALSE(fs::exists(path / ".retort/run.json"));
  folder.commit();
  folder.commit();
  folder.record("graph.json", "{}");
  const TemporaryFolder left;
  storage.leave(left.path());
  for (const char* name :
       {".retort/run.json", ".retort/recipe.yaml", ".retort/graph.json", "summary.json"})
    EXPECT_FALSE(left.read(std::string("run/") + name).empty()) << name;
  EXPECT_TRUE(fs::exists(left.path() / "run/log.txt"));
  EXPECT_TRUE(fs::exists(left.path() / "run/metrics.jsonl"));
}

TEST_F(RunFolderTest, ResumedRunSurvivesAPowerCut) {
  const fs::path path = made("run");
  { RunFolder(path).log().write({.text = "before", .seconds = 1}); }
  PowerCutStorage storage(base_.path());
  RunFolder folder = RunFolder::reopen(path, storage);
  folder.record("recipe.yaml", "a: 1\n");
  const TemporaryFolder left;
  storage.leave(left.path());
  EXPECT_EQ(left.read("run/log.txt"), "     1.000  info   before\n");
  EXPECT_EQ(left.read("run/.retort/resume-1/recipe.yaml"), "a: 1\n");
}

TEST_F(RunFolderTest, ReopenedFolderIsContinued) {
  const fs::path path = made("run");
  {
    RunFolder folder(path);
    folder.record("recipe.yaml", "a");
    folder.metrics().append({"a", "loss", 0.5, 1}, 1);
    folder.log().write({.text = "before", .seconds = 1});
  }
  std::ofstream(path / "log.txt", std::ios::app) << "cut off";
  {
    RunFolder again = RunFolder::reopen(path);
    again.record("recipe.yaml", "b");
    again.metrics().append({"a", "loss", 0.25, 2}, 2);
    again.log().write({.text = "after", .seconds = 2});
  }
  RunFolder::reopen(path).record("recipe.yaml", "c");
  EXPECT_EQ(base_.read("run/.retort/recipe.yaml"), "a");
  EXPECT_EQ(base_.read("run/.retort/resume-1/recipe.yaml"), "b");
  EXPECT_EQ(base_.read("run/.retort/resume-2/recipe.yaml"), "c");
  EXPECT_EQ(base_.read("run/log.txt"),
            "     1.000  info   before\ncut off\n     2.000  info   after\n");
  EXPECT_EQ(MetricsFile::reopen(path / "metrics.jsonl", disk()).read().size(), 2u);
}

TEST_F(RunFolderTest, ReopenedFolderDoesNotCopyLinkedFiles) {
  const fs::path path = made("run");
  { RunFolder folder(path); }
  const fs::path secret = base_.write("secret", "hunter2\n");
  for (const char* name : {"log.txt", "metrics.jsonl"}) {
    fs::rename(path / name, path / "own");
    fs::create_symlink(secret, path / name);
    const auto failure = [&]() -> std::string {
      try {
        RunFolder::reopen(path);
        return "none";
      } catch (const WriteError& error) {
        return error.what();
      }
    };
    EXPECT_EQ(failure(),
              "'" + (path / name).string() + "' is not a file of the run itself, but a link");
    fs::remove(path / name);
    ASSERT_EQ(mkfifo((path / name).c_str(), 0600), 0);
    EXPECT_EQ(failure(), "'" + (path / name).string() + "' is not a file of the run itself");
    fs::remove(path / name);
    fs::rename(path / "own", path / name);
  }
  RunFolder::reopen(path);
}

TEST_F(RunFolderTest, ReopenedLogKeepsItsLimit) {
  const fs::path path = made("run");
  RunFolder(path, disk(), {.limit = 60}).log().write({.text = "0123456"});
  RunFolder folder = RunFolder::reopen(path, disk(), {.limit = 60});
  for (int i = 0; i < 9; ++i) folder.log().write({.text = "0123456"});
  EXPECT_EQ(base_.read("run/log.txt"),
            "     0.000  info   0123456\n     0.000  info   0123456\n"
            "… the log has reached its limit of 60 B: later lines are dropped\n");
}

TEST_F(RunFolderTest, TrainingStartTimeIncludesItsRecordedFirstEpoch) {
  const fs::path path = made("run");
  RunFolder folder(path);
  const std::vector<MetricLine> kept = {{{"train", "train/loss", 3, 1}, 6},
                                        {{"train", "train/epoch_loss", 2, 4}, 14}};
  EXPECT_EQ(folder.beginning_of("train", kept), 6);
  fs::create_directories(path / "nodes/train");
  folder.record_history("train", {{"epoch_times", {9.5, 1}}});
  EXPECT_EQ(folder.beginning_of("train", kept), 4.5);
  EXPECT_EQ(folder.beginning_of("train", std::span(kept).first(1)), 6);
  std::ofstream(path / "nodes/train/training_metrics.json") << "cut o";
  EXPECT_EQ(folder.beginning_of("train", kept), 6);
}

}  // namespace
}  // namespace runner
