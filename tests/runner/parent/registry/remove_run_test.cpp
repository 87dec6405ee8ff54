#include "runner/parent/registry/remove_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/forwarding_storage.h"
#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A disk that refuses all removals after some calls.
class StuckStorage : public ForwardingStorage {
 public:
  explicit StuckStorage(int calls) : left_(calls) {}
  int remove(const fs::path& path) override {
    if (left_-- > 0) return ForwardingStorage::remove(path);
    errno = EACCES;
    return -1;
  }

 private:
  int left_;
};

class RemoveRun : public testing::Test {
 protected:
  RemoveRun() { write_run(folder_, "outputs/run"); }
  std::string refusal(const fs::path& path) const {
    const auto run = removable_run(path);
    return run ? "none" : name(run.errors().front().code) + " " + run.errors().front().message;
  }
  TemporaryFolder folder_;
};

TEST_F(RemoveRun, RemovesAllFilesOfTheRun) {
  folder_.write("outputs/run/nodes/train/checkpoints/step-00000004/model.safetensors", "weights");
  folder_.write("outputs/run/analysis/x.svg", "");
  folder_.write("outputs/run/report.html", "");
  folder_.write("outputs/run/export/adapter/x", "");
  folder_.write("outputs/run/metrics.jsonl.part", "");
  folder_.write("outputs/run/tags.json", "");
  folder_.write("outputs/run/.retort/resume-1/recipe.yaml", "");
  folder_.write("outputs/other", "");
  const auto run = removable_run(folder_ / "outputs/run/");
  ASSERT_TRUE(run);
  EXPECT_GT(run->bytes, 7u);
  const auto left = remove_run(*run);
  ASSERT_TRUE(left);
  EXPECT_THAT(*left, IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ / "outputs/run"));
  EXPECT_TRUE(fs::exists(folder_ / "outputs/other"));
}

TEST_F(RemoveRun, KeepsOtherFiles) {
  folder_.write("outputs/run/notes.txt", "mine");
  folder_.write("outputs/run/pictures/a.png", "mine");
  const auto run = removable_run(folder_ / "outputs/run");
  ASSERT_TRUE(run);
  EXPECT_THAT(*remove_run(*run), ElementsAre("notes.txt", "pictures"));
  EXPECT_EQ(folder_.read("outputs/run/notes.txt"), "mine");
  EXPECT_EQ(folder_.read("outputs/run/pictures/a.png"), "mine");
  EXPECT_FALSE(fs::exists(folder_ / "outputs/run/.retort"));
  EXPECT_FALSE(fs::exists(folder_ / "outputs/run/summary.json"));
}

TEST_F(RemoveRun, DoesNotFollowLinks) {
  folder_.write("data/photo.jpg", "mine");
  fs::create_directory_symlink(folder_ / "data", folder_ / "outputs/run/nodes");
  fs::create_directory_symlink(folder_ / "data", folder_ / "outputs/run/analysis");
  ASSERT_TRUE(remove_run(*removable_run(folder_ / "outputs/run")));
  EXPECT_FALSE(fs::exists(folder_ / "outputs/run"));
  EXPECT_EQ(folder_.read("data/photo.jpg"), "mine");
}

TEST_F(RemoveRun, RejectsFoldersWithoutARun) {
  const std::string path = folder_.path().string();
  EXPECT_EQ(refusal(folder_ / "outputs"),
            "E0806 '" + path + "/outputs' has no record of a run, so it is not removed");
  EXPECT_EQ(refusal(folder_ / "absent"), "E0806 there is no folder '" + path + "/absent'");
  EXPECT_EQ(refusal(folder_ / "outputs/x/../run"),
            "E0501 '" + path + "/outputs/x/../run' contains '..'");
  fs::create_directory_symlink(folder_ / "outputs/run", folder_ / "link");
  EXPECT_EQ(refusal(folder_ / "link"),
            "E0806 '" + path + "/link' is a link or a file, not a folder");
  EXPECT_EQ(refusal(folder_ / "link/"),
            "E0806 '" + path + "/link/' is a link or a file, not a folder");
  EXPECT_TRUE(fs::exists(folder_ / "outputs/run/summary.json"));
}

TEST_F(RemoveRun, RejectsInvalidMarks) {
  for (const std::string text : {"", "{", "3", R"({"schema": 2})"}) {
    folder_.write("outputs/run/.retort/run.json", text);
    EXPECT_THAT(refusal(folder_ / "outputs/run"), HasSubstr("has no record of a run")) << text;
  }
  fs::remove_all(folder_ / "outputs/run/.retort");
  write_run(folder_, "outputs/other");
  fs::create_directory_symlink(folder_ / "outputs/other/.retort", folder_ / "outputs/run/.retort");
  EXPECT_THAT(refusal(folder_ / "outputs/run"), HasSubstr("has no record of a run"));
}

TEST_F(RemoveRun, RejectsAnActiveRun) {
  const auto lock = RunLock::take(folder_ / "outputs/run");
  ASSERT_TRUE(lock);
  EXPECT_EQ(refusal(folder_ / "outputs/run"),
            "E0805 the run '" + (folder_ / "outputs/run").string() + "' is still running");
}

TEST_F(RemoveRun, PartiallyRemovedRunCanBeRemovedAgain) {
  int calls = 0;
  for (bool is_done = false; !is_done; ++calls) {
    write_run(folder_, "outputs/run");
    StuckStorage stuck(calls);
    auto run = removable_run(folder_ / "outputs/run");
    ASSERT_TRUE(run);
    const auto left = remove_run(*run, stuck);
    is_done = bool(left);
    if (is_done) continue;
    EXPECT_THAT(left.errors().front().message, testing::EndsWith("': Permission denied"));
    const bool is_marked = fs::exists(folder_ / "outputs/run/.retort/run.json");
    const bool has_results = fs::exists(folder_ / "outputs/run/summary.json");
    EXPECT_TRUE(is_marked || !has_results) << calls;
  }
  EXPECT_EQ(calls,
            8);  // each of the seven files and folders was once the first that could not be removed
}

TEST_F(RemoveRun, LeftoversOfAKilledRemovalCanBeRemoved) {
  for (const char* left : {"outputs/first/.retort", "outputs/second"}) {
    fs::create_directories(folder_ / left);
    const fs::path run = (folder_ / left).parent_path().filename() == "outputs"
                             ? folder_ / left
                             : (folder_ / left).parent_path();
    auto removable = removable_run(run);
    ASSERT_TRUE(removable) << left;
    ASSERT_TRUE(remove_run(*removable)) << left;
    EXPECT_FALSE(fs::exists(run)) << left;
  }
  folder_.write("outputs/third/.retort/mine", "a");
  EXPECT_THAT(refusal(folder_ / "outputs/third"), HasSubstr("has no record of a run"));
  folder_.write("outputs/fourth/photo.jpg", "a");
  EXPECT_THAT(refusal(folder_ / "outputs/fourth"), HasSubstr("has no record of a run"));
}

TEST_F(RemoveRun, RunKilledBeforeItBeganCanBeRemoved) {
  folder_.write("outputs/early/.retort/run.json", R"({"schema": 1})");
  ASSERT_TRUE(remove_run(*removable_run(folder_ / "outputs/early")));
  EXPECT_FALSE(fs::exists(folder_ / "outputs/early"));
}

}  // namespace
}  // namespace runner
