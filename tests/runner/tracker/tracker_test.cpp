#include "runner/tracker/tracker.h"

#include <deque>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/record/metrics_file.h"
#include "tests/support/mlflow_server.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

/// Input with all lines available at once.
class GivenLines final : public TrackerInput {
 public:
  explicit GivenLines(std::vector<json> lines) : lines_(lines.begin(), lines.end()) {}
  std::optional<std::string> next(std::chrono::milliseconds) override {
    if (lines_.empty()) return std::nullopt;
    const std::string line = lines_.front().dump();
    lines_.pop_front();
    return line;
  }
  bool is_over() const override { return lines_.empty(); }

 private:
  std::deque<json> lines_;
};

/// A description of a run, which ends as soon as the server has received a request to `method`.
class EndsAfterRequest final : public TrackerInput {
 public:
  EndsAfterRequest(const FakeMlflow& server, std::string method, json first, json end)
      : server_(server),
        method_(std::move(method)),
        first_(std::move(first)),
        end_(std::move(end)) {}
  std::optional<std::string> next(std::chrono::milliseconds) override {
    if (first_.is_object()) return std::exchange(first_, nullptr).dump();
    for (const SeenRequest& request : server_.seen())
      if (end_.is_object() && request.target.find(method_) != request.target.npos)
        return std::exchange(end_, nullptr).dump();
    return std::nullopt;
  }
  bool is_over() const override { return false; }

 private:
  const FakeMlflow& server_;
  const std::string method_;
  json first_, end_;
};

class TrackerTest : public testing::Test {
 protected:
  TrackerTest() {
    MetricsFile::make(folder_ / "metrics.jsonl", disk()).append({"train", "train/loss", 0.5, 1}, 1);
  }
  json request(const std::string& server, int tries = 1) const {
    return {{"server", server},
            {"experiment", {{"name", ""}, {"id", ""}}},
            {"run",
             {{"metrics", (folder_ / "metrics.jsonl").string()},
              {"state", (folder_ / "mlflow.json").string()},
              {"name", "a"},
              {"began", 0},
              {"params", json::object()},
              {"tags", json::object()},
              {"prefixes", {{"train", "train/"}}}}},
            {"sweep", nullptr},
            {"tries", tries},
            {"limit_seconds", 5},
            {"answer_milliseconds", 2000}};
  }
  bool track(const std::vector<json>& lines) {
    GivenLines input(lines);
    answers_.clear();
    return Tracker(input, [this](const json& line) { answers_.push_back(line); })();
  }
  /// The run ends while the server does not respond to a request to `method`.
  bool track_until_silent(const std::string& method) {
    json impatient = request(mlflow_.url());
    impatient["answer_milliseconds"] = 1;
    EndsAfterRequest input(mlflow_, method, impatient, ended());
    answers_.clear();
    return Tracker(input, [this](const json& line) { answers_.push_back(line); })();
  }
  static json ended() { return {{"end", {{"status", "FAILED"}, {"time", 9000}}}}; }

  TemporaryFolder folder_;
  FakeMlflow mlflow_;
  std::vector<json> answers_;
};

TEST_F(TrackerTest, SendsEverythingAndReportsIt) {
  EXPECT_TRUE(track({request(mlflow_.url()), ended()}));
  EXPECT_EQ(mlflow_.run().status, "FAILED");
  EXPECT_EQ(mlflow_.run().count("train/train/loss"), 1u);
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(answers_[0]["done"]["sent"], 1);
  EXPECT_EQ(answers_[0]["done"]["run_id"], "run0");
}

TEST_F(TrackerTest, RefusalIsReportedOnceWithoutSecrets) {
  const ScopedVariable user("MLFLOW_TRACKING_USERNAME", "anna");
  const ScopedVariable password("MLFLOW_TRACKING_PASSWORD", "out of order");
  mlflow_.fail("*", 403);
  EXPECT_FALSE(track({request(mlflow_.url()), ended()}));
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(answers_[0]["failed"],
            mlflow_.url() + " answers 403 to 'experiments/get-by-name': ***");
  EXPECT_EQ(mlflow_.seen()[0].header("authorization"), "Basic YW5uYTpvdXQgb2Ygb3JkZXI=");
}

TEST_F(TrackerTest, FailingServerIsRetriedAtALaterExport) {
  mlflow_.fail("*", 500);
  EXPECT_FALSE(track({request(mlflow_.url()), ended()}));
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_THAT(answers_[0]["failed"].get<std::string>(), HasSubstr("answers 500"));
  mlflow_.recover();
  EXPECT_TRUE(track({request(mlflow_.url()), ended()})) << "a later export";
  EXPECT_EQ(mlflow_.run().metrics.size(), 1u);
}

TEST_F(TrackerTest, SilentServerGetsNoMoreRequests) {
  mlflow_.fail("*", 0);
  EXPECT_FALSE(track_until_silent("experiments/get-by-name"));
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(answers_[0]["failed"], "the server does not respond, and the run has ended");
  EXPECT_THAT(mlflow_.seen(), SizeIs(1)) << "the request that was waiting when the run ended";
}

TEST_F(TrackerTest, VanishedServerIsReportedOnce) {
  std::string address;
  { address = FakeMlflow().url(); }
  EXPECT_FALSE(track({request(address), ended()}));
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_THAT(answers_[0]["failed"].get<std::string>(), HasSubstr("Failed to connect"));
}

TEST_F(TrackerTest, FailingServerGetsOneMoreRequestAtTheEnd) {
  mlflow_.fail("*", 500);
  EXPECT_FALSE(track({request(mlflow_.url()), ended()}));
  EXPECT_THAT(mlflow_.seen(), SizeIs(2)) << "once during the run, and once at its end";
}

TEST_F(TrackerTest, PartiallySentRunIsCompletedByALaterExport) {
  mlflow_.fail("runs/log-batch", 0, /*is_done=*/true);  // the response is lost
  EXPECT_FALSE(track_until_silent("runs/log-batch"));
  mlflow_.recover();
  json patient = request(mlflow_.url());
  patient["limit_seconds"] = 0;
  EXPECT_TRUE(track({patient, ended()}));
  ASSERT_THAT(mlflow_.runs(), SizeIs(1));
  EXPECT_EQ(mlflow_.run().metrics.size(), 1u);
  EXPECT_EQ(mlflow_.run().status, "FAILED") << "as the run ended";
}

TEST_F(TrackerTest, ServersOtherThanMlflowAreRecognized) {
  const HttpServer other([](const SeenRequest&) { return ServedReply{.body = "<html>"}; });
  EXPECT_FALSE(track({request(other.url()), ended()}));
  EXPECT_EQ(answers_.at(0)["failed"], other.url() + " does not respond like an MLflow server");
  const HttpServer moved([](const SeenRequest&) {
    return ServedReply{.status = 308, .headers = {{"Location", "https://me:word@mlflow.test/"}}};
  });
  EXPECT_FALSE(track({request(moved.url()), ended()}));
  EXPECT_THAT(answers_.at(0)["failed"].get<std::string>(),
              HasSubstr("a redirect to https://mlflow.test/"));
}

TEST_F(TrackerTest, EndsWithItsParentProcess) {
  EXPECT_FALSE(track({request(mlflow_.url())}));
  EXPECT_THAT(answers_, testing::IsEmpty());
}

}  // namespace
}  // namespace runner
