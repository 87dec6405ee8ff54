#include "runner/parent/record/watched_inputs.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

class WatchedInputsTest : public testing::Test {
 protected:
  WatchedInputsTest() {
    folder_.write("photos/cat/1.jpg", "one");
    folder_.write("photos/dog/1.jpg", "second");
  }
  WatchedInputs watch(const std::string& folder = "photos") const {
    WatchedInputs inputs({{"/data/root", folder_ / folder}});
    inputs.look();
    return inputs;
  }
  TemporaryFolder folder_;
};

TEST_F(WatchedInputsTest, TouchedFilesCountAsUnchanged) {
  const WatchedInputs inputs = watch();
  const fs::path file = folder_ / "photos/cat/1.jpg";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
  EXPECT_TRUE(inputs.changes().empty());
}

TEST_F(WatchedInputsTest, SwappedClassesAreDetected) {
  const WatchedInputs inputs = watch();
  fs::rename(folder_ / "photos/cat", folder_ / "photos/other");
  fs::rename(folder_ / "photos/dog", folder_ / "photos/cat");
  fs::rename(folder_ / "photos/other", folder_ / "photos/dog");
  ASSERT_EQ(inputs.changes().size(), 1u);
  EXPECT_EQ(inputs.changes()[0].change.pointer, "/data/root");
  EXPECT_FALSE(inputs.changes()[0].has_only_more);
}

TEST_F(WatchedInputsTest, AddedFilesAreDistinguishedFromChangedOnes) {
  const WatchedInputs inputs = watch();
  folder_.write("photos/cat/0.jpg", "new");
  ASSERT_EQ(inputs.changes().size(), 1u);
  EXPECT_EQ(inputs.changes()[0].change.text, "was 2 files with 9 B and is now 3 files with 12 B");
  EXPECT_TRUE(inputs.changes()[0].has_only_more);
  folder_.write("photos/dog/1.jpg", "longer than before");
  EXPECT_FALSE(inputs.changes()[0].has_only_more);
}

TEST_F(WatchedInputsTest, FilesThatTheRunCreatesAreMarked) {
  WatchedInputs inputs = watch("made");
  EXPECT_EQ(inputs.record()["/data/root"], nullptr);
  EXPECT_FALSE(inputs.look_for_made());
  folder_.write("made/cat/1.jpg", "one");
  EXPECT_TRUE(inputs.look_for_made());
  EXPECT_FALSE(inputs.look_for_made());
  EXPECT_EQ(inputs.record()["/data/root"]["made"], true);
  EXPECT_TRUE(inputs.changes().empty());

  const ordered_json before = inputs.record();
  WatchedInputs resumed = watch("made");
  EXPECT_FALSE(resumed.record()["/data/root"].contains("made"));
  resumed.copy_marks(before);
  EXPECT_EQ(resumed.record(), before);
  folder_.write("made/cat/1.jpg", "another");
  EXPECT_EQ(input_changes(before, watch("made").record()).size(), 1u);
  fs::remove_all(folder_ / "made");
  EXPECT_TRUE(input_changes(before, watch("made").record()).empty());
}

TEST_F(WatchedInputsTest, InputMarkedAsChangedStaysChanged) {
  WatchedInputs inputs = watch();
  inputs.mark_changed("/data/root");
  const auto changes = input_changes(inputs.record(), watch().record());
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].text, "was changed during the run");
}

TEST_F(WatchedInputsTest, RecordsNothingWithoutInputs) {
  WatchedInputs inputs({});
  inputs.look();
  EXPECT_EQ(inputs.record(), nullptr);
  EXPECT_FALSE(inputs.look_for_made());
  inputs.copy_marks(ordered_json::parse(R"({"/data/root": {"made": true}})"));
  EXPECT_EQ(inputs.record(), nullptr);
  EXPECT_TRUE(inputs.changes().empty());
}

}  // namespace
}  // namespace runner
