#include "runner/shared/record/recorded_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RecordedRunTest : public testing::Test {
 protected:
  RecordedRunTest() { fs::create_directories(run() / ".retort"); }
  fs::path run() const { return folder_.path() / "run"; }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((run() / name).parent_path());
    std::ofstream(run() / name) << text;
  }
  void write_record(const std::string& below = "") {
    write(".retort/run.json", R"({"schema": 1})");
    write(".retort/" + below + "recipe.yaml", "schema: 1");
    write(".retort/" + below + "environment.json", R"({"device": "cpu", "threads": 3})");
  }
  std::string error() const {
    const auto result = read_run(run());
    return result ? "read" : name(result.errors().at(0).code) + " " + result.errors().at(0).message;
  }
  TemporaryFolder folder_;
};

TEST_F(RecordedRunTest, HasRecipeDeviceThreadsAndStatus) {
  write_record();
  write("summary.json",
        R"({"status": "interrupted", "smoke": true, "nodes": [{"id": "data", "status": "finished"},
                            {"id": "train", "status": "running"}, 3]})");
  const auto read = read_run(run());
  ASSERT_TRUE(read) << error();
  EXPECT_EQ(read->recipe, run() / ".retort/recipe.yaml");
  EXPECT_EQ(read->device, "cpu");
  EXPECT_EQ(read->threads, 3);
  EXPECT_EQ(read->status, "interrupted");
  EXPECT_TRUE(read->smoke);
  EXPECT_EQ(read->finished, std::vector<std::string>{"data"});
}

TEST_F(RecordedRunTest, HasTheOnlyGpuVisibleToItsWorker) {
  const auto uuid = [&](const std::string& choice) {
    write_record();
    write(".retort/environment.json",
          R"({"device": "cuda:0", "threads": 3, "device_choice": )" + choice + "}");
    return read_run(run())->device_uuid;
  };
  EXPECT_EQ(uuid(R"({"asked": "auto", "uuid": "GPU-1", "is_only_visible": true})"), "GPU-1");
  EXPECT_EQ(uuid(R"({"asked": "cuda:0", "uuid": "GPU-1", "is_only_visible": false})"), "");
  EXPECT_EQ(uuid(R"({"uuid": 3, "is_only_visible": true})"), "");
  EXPECT_EQ(uuid("3"), "");
}

TEST_F(RecordedRunTest, EvaluationNamesTheSourceOfItsWeights) {
  write_record();
  EXPECT_EQ(read_run(run())->source, "");
  write(".retort/source.json", R"({"schema": 1, "run": "/elsewhere/run"})");
  EXPECT_EQ(read_run(run())->source, "/elsewhere/run");
  write(".retort/source.json", R"({"run": 3})");
  EXPECT_EQ(read_run(run())->source, "");
}

TEST_F(RecordedRunTest, LatestCompleteRecordCounts) {
  write_record();
  write_record("resume-1/");
  write_record("resume-2/");
  write(".retort/resume-3/recipe.yaml", "schema: 1");  // killed before the rest was written
  EXPECT_EQ(read_run(run())->recipe, run() / ".retort/resume-2/recipe.yaml");
}

TEST_F(RecordedRunTest, FolderWithoutARunIsRejected) {
  EXPECT_THAT(error(), HasSubstr("E0806 '" + run().string() + "' is not the folder of a run"));
  write("sweep.jsonl", "{}");
  EXPECT_THAT(error(), HasSubstr("E0806 '" + run().string() + "' is the folder of a sweep"));
  fs::remove_all(run());
  EXPECT_THAT(error(), HasSubstr("E0806 there is no folder '"));
}

TEST_F(RecordedRunTest, RunKilledEarlyIsDistinguishedFromADamagedOne) {
  write(".retort/run.json", R"({"schema": 1})");
  write(".retort/recipe.yaml", "schema: 1");
  EXPECT_THAT(error(), HasSubstr("was killed before it started: its record is incomplete"));
  write(".retort/environment.json", R"({"device": "cpu"})");
  EXPECT_THAT(error(), HasSubstr("E0806 the record in '" + (run() / ".retort").string() +
                                 "' cannot be read"));
}

}  // namespace
}  // namespace runner
