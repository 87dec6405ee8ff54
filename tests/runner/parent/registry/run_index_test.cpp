#include "runner/parent/registry/run_index.h"

#include <chrono>

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class RunIndexTest : public testing::Test {
 protected:
  fs::path root() const { return folder_ / "outputs"; }
  void write(const std::string& run, const std::string& top1 = "0.5") const {
    write_run(folder_, "outputs/" + run, top1);
  }
  /// Makes a run look as if it had not changed for an hour.
  void settle(const std::string& run) const {
    fs::last_write_time(root() / run, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  RunIndex index() { return RunIndex(root(), folder_ / "indexes", warnings_); }
  RunIndex::Changes refresh_and_save() {
    RunIndex one = index();
    const auto changes = one.refresh();
    one.save();
    return changes;
  }
  std::vector<std::string> folders() {
    std::vector<std::string> all;
    RunIndex one = index();
    for (const IndexedRun& run : one.runs()) all.push_back(run.folder);
    return all;
  }
  /// The indexed value of a run's only metric.
  double top1(const std::string& run) {
    RunIndex one = index();
    for (const IndexedRun& each : one.runs())
      if (each.folder == run) return each.headline;
    return -1;
  }

  TemporaryFolder folder_;
  Diagnostics warnings_;
};

TEST_F(RunIndexTest, HoldsTheEntriesOfAllRuns) {
  write("a", "0.25");
  write("2026-01-31/12-00-00/3");
  folder_.write("outputs/a/tags.json", R"({"schema": 1, "tags": ["best", "old"]})");
  EXPECT_EQ(refresh_and_save().read, 2u);
  RunIndex one = index();
  const auto runs = one.runs();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].folder, "2026-01-31/12-00-00/3");
  EXPECT_EQ(runs[1].folder, "a");
  const RunEntry& entry = runs[1].entry;
  EXPECT_EQ(entry.recipe, "probe");
  EXPECT_EQ(entry.status, "finished");
  EXPECT_EQ(entry.started, "2026-01-31T12:00:00+0000");
  EXPECT_EQ(entry.seconds, 9);
  EXPECT_EQ(entry.device, "cpu");
  EXPECT_FALSE(entry.smoke);
  EXPECT_THAT(entry.tags, ElementsAre("best", "old"));
  EXPECT_EQ(entry.headline, "evaluate/top1");
  EXPECT_EQ(runs[1].headline, 0.25);
  EXPECT_THAT(one.values({true, "evaluate/top1"}),
              testing::UnorderedElementsAre(Pair(runs[0].id, RunValue(0.5)),
                                            Pair(runs[1].id, RunValue(0.25))));
  EXPECT_THAT(one.values({false, "model.kind"}),
              testing::Contains(Pair(runs[0].id, RunValue("model.lora"))));
  EXPECT_THAT(one.values({false, "evaluate/top1"}), IsEmpty());
  std::vector<std::string> names;
  for (const IndexedKey& key : one.keys()) names.push_back(key.name);
  EXPECT_THAT(names,
              ElementsAre("model.kind", "name", "train.epochs", "train.kind", "evaluate/top1"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RunIndexTest, NanStaysNan) {
  write("a", R"("nan")");
  refresh_and_save();
  EXPECT_TRUE(std::isnan(top1("a")));
  RunIndex one = index();
  const auto values = one.values({true, "evaluate/top1"});
  ASSERT_EQ(values.size(), 1u);
  EXPECT_TRUE(std::isnan(std::get<double>(values[0].second)));
}

TEST_F(RunIndexTest, RereadsOnlyChangedRuns) {
  for (const std::string run : {"a", "b"}) write(run), settle(run);
  EXPECT_EQ(refresh_and_save().read, 2u);
  EXPECT_FALSE(refresh_and_save().any());
  write("b", "0.75");
  fs::last_write_time(root() / "b", fs::file_time_type::clock::now() - std::chrono::minutes(1));
  EXPECT_EQ(refresh_and_save().read, 1u);
  EXPECT_EQ(top1("b"), 0.75);
  EXPECT_EQ(top1("a"), 0.5);
  EXPECT_THAT(folders(), ElementsAre("a", "b"));
}

TEST_F(RunIndexTest, FileEditedInPlaceIsReadAgain) {
  write("a"), settle("a");
  EXPECT_EQ(refresh_and_save().read, 1u);
  EXPECT_EQ(refresh_and_save().read, 0u);
  for (const char* name : {"summary.json", ".retort/recipe.yaml"}) {
    std::ofstream(root() / "a" / name, std::ios::app) << "\n";
    EXPECT_EQ(refresh_and_save().read, 1u) << name;
    EXPECT_EQ(refresh_and_save().read, 0u) << name;
  }
}

TEST_F(RunIndexTest, LeftoversOfAKilledProcessAreRemoved) {
  write("a");
  refresh_and_save();
  const std::string file = index().file().filename().string();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  folder_.write("indexes/." + file + "." + std::to_string(child) + ".part", "half");
  refresh_and_save();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "indexes"), {}), 1);
}

TEST_F(RunIndexTest, RecentlyChangedRunIsReadAgain) {
  write("a");
  EXPECT_EQ(refresh_and_save().read, 1u);
  EXPECT_EQ(refresh_and_save().read,
            1u);  // its folder may have changed again at the same time
  settle("a");
  EXPECT_EQ(refresh_and_save().read, 1u);
  EXPECT_EQ(refresh_and_save().read, 0u);
}

TEST_F(RunIndexTest, ForgetsRemovedRuns) {
  for (const std::string run : {"a", "b"}) write(run), settle(run);
  refresh_and_save();
  fs::remove_all(root() / "a");
  const auto changes = refresh_and_save();
  EXPECT_THAT(changes.gone, ElementsAre("a"));
  EXPECT_EQ(changes.read, 0u);
  EXPECT_THAT(folders(), ElementsAre("b"));
  RunIndex one = index();
  EXPECT_EQ(one.values({false, "model.kind"}).size(), 1u);
}

TEST_F(RunIndexTest, FolderThatIsItselfARunIsListed) {
  write_run(folder_, "outputs");
  refresh_and_save();
  EXPECT_THAT(folders(), ElementsAre("."));
}

TEST_F(RunIndexTest, LinksAndDeeperFoldersAreNotFollowed) {
  write("a/b/c/d");
  write("1/2/3");
  write_run(folder_, "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", root() / "link");
  folder_.write("outputs/fake/.retort/other", "");
  fs::create_symlink(folder_ / "elsewhere/.retort/run.json", root() / "fake/.retort/run.json");
  refresh_and_save();
  EXPECT_THAT(folders(), ElementsAre("1/2/3"));
}

TEST_F(RunIndexTest, DamagedRunIsListedWithItsProblem) {
  write("a");
  folder_.write("outputs/a/summary.json", "{");
  refresh_and_save();
  RunIndex one = index();
  EXPECT_EQ(one.runs().at(0).entry.status, "damaged");
  EXPECT_THAT(one.runs().at(0).entry.problem, HasSubstr("summary.json"));
}

TEST_F(RunIndexTest, IndexFromAnotherVersionIsRebuilt) {
  write("a");
  refresh_and_save();
  const fs::path file = index().file();
  {
    auto database = Database::read(file);
    database->run("PRAGMA user_version = 7");
    std::ofstream(file, std::ios::binary) << database->bytes();
  }
  warnings_.clear();
  EXPECT_EQ(refresh_and_save().read, 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0].severity, Severity::kWarning);
  EXPECT_EQ(warnings_[0].message, "the index of the runs in '" + root().string() +
                                      "' has version 7, not 2, and will be rebuilt: '" +
                                      file.string() + "'");
  EXPECT_THAT(folders(), ElementsAre("a"));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(RunIndexTest, DamagedIndexIsRebuilt) {
  write("a");
  refresh_and_save();
  const fs::path file = index().file();
  for (const std::string& text :
       {std::string("no database"), std::string(8192, 'x'), std::string(100, '\0')}) {
    std::ofstream(file, std::ios::binary) << text;
    warnings_.clear();
    EXPECT_EQ(refresh_and_save().read, 1u);
    ASSERT_EQ(warnings_.size(), 1u) << text;
    EXPECT_THAT(warnings_[0].message,
                HasSubstr("is damaged (file is not a database), and will be rebuilt: '"));
    EXPECT_THAT(folders(), ElementsAre("a"));
  }
}

TEST_F(RunIndexTest, StoresNothingWithoutAFolder) {
  write("a");
  RunIndex one(root(), "", warnings_);
  EXPECT_EQ(one.refresh().read, 1u);
  EXPECT_EQ(one.runs().size(), 1u);
  one.save();
  EXPECT_FALSE(fs::exists(folder_ / "indexes"));
}

TEST_F(RunIndexTest, IndexFolderMayHaveAnyName) {
  write("a");
  const fs::path odd = folder_ / "in? #x%41 dex";
  RunIndex(root(), odd, warnings_).save();
  RunIndex one(root(), odd, warnings_);
  EXPECT_EQ(one.refresh().read, 1u);
  one.save();
  EXPECT_EQ(RunIndex(root(), odd, warnings_).runs().size(), 1u);
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace runner
