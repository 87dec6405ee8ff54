#include "runner/shared/record/node_index.h"

#include <gtest/gtest.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

/// A finished training node.
class FinishedNodeTest : public testing::Test {
 protected:
  FinishedNodeTest() {
    folder_.write("metrics.json", "{}");
    folder_.write("checkpoints/latest", "step-00000004\n");
    folder_.write("checkpoints/best", "step-00000002\n");
    for (const char* name : {"step-00000001", "step-00000002", "step-00000004"}) save(name);
    write_finished(folder_.path(), {.key = "k"});
  }
  void save(const std::string& name) const {
    std::string files;
    for (const char* file : {kCheckpointModel, kCheckpointOptimizer, kCheckpointState}) {
      folder_.write("checkpoints/" + name + "/" + file, file);
      files += (files.empty() ? "\"" : ", \"") + std::string(file) + R"(": {"size": )" +
               std::to_string(std::string(file).size()) + R"(, "sha256": ")" + sha256(file) + "\"}";
    }
    folder_.write("checkpoints/" + name + "/manifest.json",
                  R"({"schema": 1, "files": {)" + files + "}}");
  }
  std::string missing() const {
    return what_is_missing(folder_.path(), *read_finished(folder_.path())).value_or("nothing");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  TemporaryFolder folder_;
};

TEST_F(FinishedNodeTest, IsCompleteIfUnchanged) {
  EXPECT_EQ(missing(), "nothing");
  EXPECT_EQ(read_finished(folder_.path())->files.size(), 3u);
}

TEST_F(FinishedNodeTest, ReportsAMissingOrResizedFile) {
  folder_.write("metrics.json", "{");
  EXPECT_EQ(missing(), "'" + path("metrics.json") + "' has 1 bytes, not 2");
  fs::remove(folder_ / "metrics.json");
  EXPECT_EQ(missing(), "'" + path("metrics.json") + "' is missing");
}

TEST_F(FinishedNodeTest, ReportsADamagedFileOfTheSameSize) {
  folder_.write("metrics.json", "[]");
  EXPECT_EQ(missing(), "'" + path("metrics.json") + "' does not match its recorded SHA-256");
}

TEST_F(FinishedNodeTest, ChecksOnlyTheSizeOfALargeFile) {
  folder_.write("features.bin", "");
  fs::resize_file(folder_ / "features.bin", kLargestDigested + 1);
  write_finished(folder_.path(), {.key = "k"});
  EXPECT_EQ(read_finished(folder_.path())->files.at("features.bin").sha256, "");
  EXPECT_EQ(missing(), "nothing");
  fs::resize_file(folder_ / "features.bin", kLargestDigested + 2);
  EXPECT_EQ(missing(), "'" + path("features.bin") + "' has 16777218 bytes, not 16777217");
}

TEST_F(FinishedNodeTest, ReadsOlderRecordsWithoutDigests) {
  const std::string node =
      R"({"schema": 1, "key": "k", "seconds": 1, "peak_memory_bytes": 0, "files": )";
  folder_.write("finished.json", node + R"({"metrics.json": 2}})");
  EXPECT_EQ(missing(), "nothing");
  folder_.write("finished.json", node + R"({"metrics.json": 3}})");
  EXPECT_EQ(missing(), "'" + path("metrics.json") + "' has 2 bytes, not 3");
  folder_.write("finished.json", node + R"({"metrics.json": "two"}})");
  EXPECT_FALSE(read_finished(folder_.path()));
  folder_.write("finished.json", node + "[1]}");
  EXPECT_FALSE(read_finished(folder_.path()));
}

TEST_F(FinishedNodeTest, ReportsADamagedCheckpointThatAPointerNames) {
  fs::remove_all(folder_ / "checkpoints/step-00000001");  // no pointer names it
  EXPECT_EQ(missing(), "nothing");
  folder_.write("checkpoints/step-00000002/model.safetensors", "model.safetensorz");
  EXPECT_EQ(missing(), "the checkpoint '" + path("checkpoints/step-00000002") +
                           "' is damaged: model.safetensors does not match its recorded SHA-256");
  fs::remove_all(folder_ / "checkpoints/step-00000002");
  EXPECT_EQ(missing(), "the checkpoint '" + path("checkpoints/step-00000002") +
                           "' is damaged: it has no manifest.json");
  fs::remove(folder_ / "checkpoints/best");
  EXPECT_EQ(missing(), "'" + path("checkpoints/best") + "' is missing");
  fs::remove_all(folder_ / "checkpoints");
  EXPECT_EQ(missing(), "'" + path("checkpoints/best") + "' is missing");
}

TEST_F(FinishedNodeTest, PointerMustNameACheckpoint) {
  folder_.write("checkpoints/latest", "step-00000x04\n");
  EXPECT_EQ(missing(), "'" + path("checkpoints/latest") + "' does not point to a checkpoint");
}

}  // namespace
}  // namespace runner
