#include "runner/parent/run/tracking.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/run/mlflow_request.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Replaces retort-tracker with a shell script.
class TrackingTest : public testing::Test {
 protected:
  std::optional<ordered_json> track(const std::string& script, std::chrono::seconds limit = {}) {
    const std::filesystem::path program = folder_ / "tracker";
    std::ofstream(program) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return track_by(program, limit);
  }
  std::optional<ordered_json> track_by(const std::filesystem::path& program,
                                       std::chrono::seconds limit = {}) {
    const MlflowTarget target{.server = "http://host:5000", .tracker = program};
    const SignalSource ignores_broken_pipes;
    Tracking tracking([this](const Diagnostic& warning) { warnings_.push_back(warning.message); });
    const ordered_json request = mlflow_sweep_request(target, folder_.path(), "classify", 0);
    tracking.begin(target, request);
    tracking.begin(target, request);
    return tracking.end(mlflow_end("FINISHED", 2), limit);
  }

  TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(TrackingTest, ProgramReceivesTwoLinesAndItsAnswerIsReturned) {
  const auto done = track("read request; read end; echo \"$end\" > " + (folder_ / "end").string() +
                          "; echo '{\"done\": {\"sent\": 3}}' >&3\n");
  ASSERT_TRUE(done);
  EXPECT_EQ((*done)["sent"], 3);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(folder_.read("end"), "{\"end\":{\"status\":\"FINISHED\",\"time\":2000}}\n");
}

TEST_F(TrackingTest, FailureIsReportedOnce) {
  EXPECT_FALSE(track("for i in 1 2; do echo '{\"failed\": \"gone\"}' >&3; done; exit 1\n"));
  EXPECT_THAT(
      warnings_,
      ElementsAre("the MLflow server at http://host:5000 did not receive all of the run: gone"));
}

TEST_F(TrackingTest, ProgramThatDiesOrIsMissingIsReported) {
  EXPECT_FALSE(track("kill -9 $$\n"));
  EXPECT_FALSE(track_by(folder_ / "missing"));
  ASSERT_THAT(warnings_, SizeIs(2));
  EXPECT_THAT(warnings_[0], HasSubstr("was killed by SIGKILL"));
  EXPECT_THAT(warnings_[1], HasSubstr("cannot start"));
}

TEST_F(TrackingTest, ProgramThatDoesNotEndInTimeIsStopped) {
  EXPECT_FALSE(track("exec sleep 60\n", std::chrono::seconds(1)));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("it did not accept everything in time"));
}

TEST_F(TrackingTest, ProgramThatReportsAFailureAtTheEndIsNotAwaited) {
  EXPECT_FALSE(
      track("read request; read end; echo '{\"failed\": \"gone\"}' >&3; sleep 20; "
            "echo '{\"done\": {\"sent\": 3}}' >&3\n"));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("gone"));
}

TEST_F(TrackingTest, SignalEndsTheWait) {
  EXPECT_FALSE(track("kill -TERM $PPID; exec sleep 60\n"));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("waiting for it was stopped by SIGTERM"));
}

}  // namespace
}  // namespace runner
