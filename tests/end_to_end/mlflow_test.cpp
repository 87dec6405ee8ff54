// End-to-end tests of runs that are sent to an MLflow server: what the server receives, and that no
// server can harm a run.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/mlflow_server.h"
#include "tests/support/output_shape.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

class Mlflow : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 10 --size 24 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    ASSERT_EQ(train("untracked", "", "").exit, 0);
    folder_.keep();
  }
  /// Trains into `name`, with the MLflow server at `address`.
  Ended train(const std::string& name, const std::string& address,
              const std::string& overrides = "run.mlflow=true") const {
    return shell(address,
                 "run classify data.root=photos data.image_size=24 epochs=2 batch_size=8 "
                 "run.dir=" +
                     name + ' ' + overrides);
  }
  Ended shell(const std::string& address, const std::string& command) const {
    return run_shell("MLFLOW_TRACKING_URI='" + address +
                         "' MLFLOW_TRACKING_TOKEN=secret-token " RETORT_BINARY_DIR "/bin/retort " +
                         command,
                     folder_.path());
  }
  /// Checks that the run's results are bit-identical to a run without a server.
  void expect_unharmed(const std::string& run) const {
    EXPECT_EQ(latest_weights(folder_ / run), latest_weights(folder_ / "untracked"));
    for (const char* file : {"nodes/evaluate/predictions.csv", "nodes/evaluate/metrics.json"}) {
      EXPECT_EQ(file_text(folder_ / (run + "/" + file)),
                file_text(folder_ / ("untracked/" + std::string(file))))
          << file;
    }
  }
  std::size_t lines(const std::string& run) const {
    const std::string text = file_text(folder_ / (run + "/metrics.jsonl"));
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }
  static std::size_t warnings(const Ended& ended) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = ended.err.find("warning[", at)) != ended.err.npos; ++at) ++count;
    return count;
  }

  SharedFolder folder_;
};

TEST_F(Mlflow, ServerReceivesTheWholeRun) {
  const FakeMlflow server;
  const Ended ended = train("tracked", server.url());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(warnings(ended), 0u) << ended.err;
  expect_unharmed("tracked");
  ASSERT_EQ(server.runs().size(), 1u);
  const FakeMlflow::Run run = server.run();
  EXPECT_EQ(run.status, "FINISHED");
  EXPECT_EQ(run.metrics.size(), lines("tracked"));
  EXPECT_THAT(run.params, Contains(Pair("train.epochs", "2")));
  EXPECT_EQ(server.seen()[0].header("authorization"), "Bearer secret-token");
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "tracked"))
    if (entry.is_regular_file())
      EXPECT_THAT(file_text(entry.path()), Not(HasSubstr("secret-token"))) << entry.path();
  const Ended again = shell("", "export tracked --json --mlflow " + server.url());
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(output_complaints(nlohmann::json::parse(again.out)), "");
  EXPECT_EQ(server.runs().size(), 1u);
  EXPECT_EQ(server.run().metrics.size(), lines("tracked"));
}

TEST_F(Mlflow, ServerErrorsDoNotAffectTheRun) {
  FakeMlflow server;
  server.fail("*", 500);
  const Ended ended = train("trouble", server.url());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(warnings(ended), 1u) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("answers 500"));
  EXPECT_THAT(ended.err, Not(HasSubstr("secret-token")));
  expect_unharmed("trouble");
  server.recover();
  const Ended sent = shell("", "export trouble --mlflow " + server.url());
  EXPECT_EQ(sent.exit, 0) << sent.err;
  EXPECT_EQ(server.run().metrics.size(), lines("trouble"));
  EXPECT_EQ(server.run().status, "FINISHED");
}

TEST_F(Mlflow, UnresponsiveServerDoesNotAffectTheRun) {
  FakeMlflow server;
  server.fail("runs/create", 0);
  const Ended ended = train("silent", server.url());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(warnings(ended), 1u) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the server does not respond, and the run has ended"));
  EXPECT_THAT(ended.err, HasSubstr("/silent --mlflow " + server.url()));
  expect_unharmed("silent");
  server.recover();
  const Ended sent = shell("", "export silent --mlflow " + server.url());
  EXPECT_EQ(sent.exit, 0) << sent.err;
  ASSERT_EQ(server.runs().size(), 1u);
  EXPECT_EQ(server.run().metrics.size(), lines("silent"));
}

TEST_F(Mlflow, ServerThatStallsDuringTheRunDoesNotAffectIt) {
  FakeMlflow server;
  server.fail("runs/log-batch", 0, /*is_done=*/true);
  const Ended ended = train("stalled", server.url());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(warnings(ended), 1u) << ended.err;
  expect_unharmed("stalled");
  server.recover();
  EXPECT_EQ(shell("", "export stalled --mlflow " + server.url()).exit, 0);
  ASSERT_EQ(server.runs().size(), 1u);
  EXPECT_EQ(server.run().metrics.size(), lines("stalled"));
  EXPECT_EQ(server.run().status, "FINISHED");
}

TEST_F(Mlflow, UnreachableServerDoesNotAffectTheRun) {
  std::string address;
  { address = FakeMlflow().url(); }
  const Ended ended = train("vanished", address);
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(warnings(ended), 1u) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("Failed to connect"));
  expect_unharmed("vanished");
}

TEST_F(Mlflow, ResumedRunContinuesTheSameMlflowRun) {
  const FakeMlflow server;
  const Ended killed =
      run_shell("RETORT_FAULT=retort-worker/step:5 MLFLOW_TRACKING_URI=" + server.url() +
                    " " RETORT_BINARY_DIR
                    "/bin/retort run classify data.root=photos data.image_size=24 "
                    "epochs=2 batch_size=8 run.dir=killed run.mlflow=true "
                    "memory.max_retries=0",
                folder_.path());
  EXPECT_NE(killed.exit, 0);
  EXPECT_EQ(server.run().status, "FAILED");
  const Ended resumed = shell(server.url(), "resume killed");
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(server.runs().size(), 1u);
  EXPECT_EQ(server.run().status, "FINISHED");
  EXPECT_EQ(server.run().metrics.size(), lines("killed"));
  expect_unharmed("killed");
}

TEST_F(Mlflow, TrialsAreNestedInTheirSweep) {
  const FakeMlflow server;
  const Ended ended = shell(server.url(),
                            "sweep classify data.root=photos data.image_size=24 epochs=1 "
                            "batch_size=8 seed=1,2 sweep.dir=sweep run.mlflow=true --slots 2");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  ASSERT_EQ(server.runs().size(), 3u);
  std::size_t nested = 0;
  for (const FakeMlflow::Run& run : server.runs()) {
    EXPECT_EQ(run.status, "FINISHED");
    nested += run.tags.contains("mlflow.parentRunId");
  }
  EXPECT_EQ(nested, 2u);
}

TEST_F(Mlflow, RunWithoutAServerIsRejected) {
  const Ended ended = train("refused", "");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("MLFLOW_TRACKING_URI is not set"));
  EXPECT_FALSE(fs::exists(folder_ / "refused"));
  EXPECT_THAT(train("refused", "sqlite:///mlflow.db").err, HasSubstr("mlflow server"));
}

}  // namespace
