#include "runner/parent/serve/run_catalog.h"

#include <atomic>
#include <future>

#include <gmock/gmock.h>

#include "runner/shared/record/recorded_run.h"
#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

/// A catalog with a clock that a test can advance, and with reads that a test can hold up.
class RunCatalogTest : public testing::Test {
 protected:
  ~RunCatalogTest() override { release(); }

  /// Makes the next read wait until release(), before it reads any record.
  void hold_next_reading() { is_held_ = true; }
  void release() {
    if (!std::exchange(is_released_, true)) release_.set_value();
  }
  void advance(std::chrono::seconds time) { passed_ = passed_.load() + time; }

  /// The folder and the state of each run.
  std::vector<std::string> states() {
    std::vector<std::string> all;
    for (const ListedRun& run : catalog_.contents()->runs)
      all.push_back(std::filesystem::path(run.folder).filename().string() + " " + run.entry.status);
    return all;
  }
  void write(const std::string& run, const std::string& status) {
    write_run(folder_, run, "0.5", "model.lora", status);
  }

  TemporaryFolder folder_;

 private:
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  bool is_released_ = false;
  std::atomic<bool> is_held_ = false;
  std::atomic<std::chrono::seconds> passed_ = 0s;

 protected:
  RunCatalog catalog_{{.folders = {folder_.path()},
                       .before_reading =
                           [this](const std::string&, std::size_t) {
                             if (is_held_.exchange(false)) released_.wait();
                           }},
                      "",
                      [this] { return RunCatalog::Clock::now() + passed_.load(); }};
};

TEST_F(RunCatalogTest, UnchangedFoldersKeepTheCatalog) {
  write_run(folder_, "a", "\"nan\"");
  const auto before = *catalog_.refresh();
  EXPECT_EQ(*catalog_.refresh(), before);
  write("a", "failed");
  EXPECT_NE(*catalog_.refresh(), before);
}

TEST_F(RunCatalogTest, OldCatalogIsReadAgainOnRequest) {
  write("a", "finished");
  EXPECT_THAT(states(), ElementsAre("a finished"));
  write("b", "finished");
  EXPECT_THAT(states(), ElementsAre("a finished"));
  advance(6s);
  EXPECT_THAT(states(), ElementsAre("a finished", "b finished"));
}

TEST_F(RunCatalogTest, RequestAfterAPauseWaitsOnlyForRunsInProgress) {
  write("ended", "running");
  write("killed", "running");
  const auto ended = RunLock::take(folder_ / "ended");
  auto killed = std::optional(RunLock::take(folder_ / "killed"));
  ASSERT_TRUE(ended && *killed);
  EXPECT_THAT(states(), ElementsAre("ended running", "killed running"));
  hold_next_reading();
  catalog_.keep_fresh();
  write("ended", "finished");
  killed.reset();
  write("new", "finished");
  advance(3600s);
  EXPECT_THAT(states(), ElementsAre("ended finished", "killed interrupted"));
  release();
  (void)catalog_.refresh();  // after the thread's read
  EXPECT_THAT(states(), ElementsAre("ended finished", "killed interrupted", "new finished"));
}

TEST_F(RunCatalogTest, FinishedRunIsNotShownAsRunningDuringASlowRead) {
  write("a", "running");
  const auto lock = RunLock::take(folder_ / "a");
  ASSERT_TRUE(lock);
  EXPECT_THAT(states(), ElementsAre("a running"));
  hold_next_reading();
  catalog_.keep_fresh();
  advance(3600s);
  EXPECT_THAT(states(), ElementsAre("a running"));
  write("a", "finished");
  advance(6s);
  EXPECT_THAT(states(), ElementsAre("a finished")) << "reading has not finished yet";
}

TEST_F(RunCatalogTest, FolderThatDisappearsIsAProblem) {
  write("a", "finished");
  EXPECT_THAT(states(), ElementsAre("a finished"));
  std::filesystem::remove_all(folder_.path());
  advance(6s);
  EXPECT_EQ(catalog_.contents()->problem, "there is no folder '" + folder_.path().string() + "'");
  EXPECT_THAT(states(), ElementsAre());
}

}  // namespace
}  // namespace runner
