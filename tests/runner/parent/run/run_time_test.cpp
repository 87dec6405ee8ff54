// The times in the record of a run.

#include <chrono>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/run_fixture.h"

namespace runner {
namespace {

/// Runs with a clock that advances by ten seconds whenever a worker says so.
class RunTimeTest : public RunTest {
 protected:
  RunTimeTest() {
    verbosity_ = Verbosity::kQuiet;
    clock_ = [this] { return now_; };
    write_ = [this](int out, const char* data, std::size_t size) {
      const std::string_view text(data, size);
      const std::size_t said =
          text.find("ten seconds ");  // in the log, which a resumed run rewrites
      if (said != text.npos &&
          passed_.insert(std::string(text.substr(said, text.find('\n', said) - said))).second)
        now_ += std::chrono::seconds(10);
      if (first_summary_.empty() && text.find("\"status\": \"running\"") != text.npos)
        first_summary_ = text;
      return ::write(out, data, size);
    };
  }
  ExitCode resume(std::vector<std::string> acts) {
    resume_ = (folder_.path() / "run").string();
    now_ += std::chrono::hours(1);
    first_summary_.clear();
    return run_script(std::move(acts));
  }
  std::string ten_seconds() {
    return R"(line:{"event":"say","node":"data","line":"ten seconds )" + std::to_string(++asked_) +
           "\"}";
  }
  double node_seconds() const { return summary()["nodes"][0].value("seconds", 0.0); }

  std::chrono::steady_clock::time_point now_;
  std::set<std::string> passed_;
  int asked_ = 0;
  std::string first_summary_;
};

TEST_F(RunTimeTest, NodeTimeIncludesKilledWorkers) {
  allow_restarts();
  run_script({"hello", "read", "ready", "read", kStarted, "new|" + metric("0.5", 1),
              "new|" + kFlush, "new|read", "new|" + ten_seconds(), "new|die:9",
              R"(again|line:{"event":"resumed","node":"data","metrics":1,"step":1})", kFinished,
              "finished:0"});
  EXPECT_EQ(node_seconds(), 11.5);
  EXPECT_EQ(summary()["seconds"], 10);
}

TEST_F(RunTimeTest, ResumedRunIncludesAllAttempts) {
  run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1), ten_seconds(),
              ten_seconds(), "finished:75"});
  EXPECT_EQ(summary()["seconds"], 20);
  EXPECT_EQ(node_seconds(), 20);
  resume({"hello", "read", "ready", "read", kStarted, ten_seconds(), "finished:75"});
  EXPECT_EQ(node_seconds(), 30);
  EXPECT_EQ(resume({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"}),
            ExitCode::kDone);
  EXPECT_EQ(summary()["seconds"], 30);
  EXPECT_EQ(node_seconds(), 31.5);
  resume({"hello", "read", "ready", "read", kFinished, "finished:0"});
  EXPECT_EQ(node_seconds(), 31.5) << "it is reported again, but did not run again";
}

TEST_F(RunTimeTest, KilledRunCountsUntilItsLastMetric) {
  const auto kill = [&] {  // restores the first summary
    folder_.write("run/summary.json", first_summary_);
  };
  run_script({"hello", "read", "ready", "read", kStarted, metric("0.5", 1), ten_seconds(),
              metric("0.25", 2), ten_seconds(), "finished:75"});
  kill();
  resume({"hello", "read", "ready", "read", kStarted,
          R"(line:{"event":"resumed","node":"data","metrics":0,"step":0})", ten_seconds(),
          "finished:75"});
  EXPECT_EQ(summary()["seconds"], 20);
  kill();  // before its first metric; the earlier metrics are dropped
  resume({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  EXPECT_EQ(summary()["seconds"], 10);
  EXPECT_EQ(node_seconds(), 11.5);
}

TEST_F(RunTimeTest, ResumedRunKeepsErrorsOfEarlierAttempts) {
  run_script({"hello", "read", "ready", "read", kStarted, kMissing, "finished:66"});
  EXPECT_FALSE(summary().contains("earlier"));
  resume({"hello", "read", "ready", "read", kStarted, "finished:75"});
  folder_.write("run/summary.json", first_summary_);  // as if it had been killed
  resume({"hello", "read", "ready", "read", kStarted, kFinished, "finished:0"});
  EXPECT_EQ(summary()["status"], "finished");
  EXPECT_EQ(summary()["diagnostics"].size(), 0u);
  const auto earlier = summary()["earlier"];
  ASSERT_EQ(earlier.size(), 2u);
  EXPECT_EQ(earlier[0]["status"], "failed");
  ASSERT_EQ(earlier[0]["diagnostics"].size(), 1u);
  EXPECT_EQ(earlier[0]["diagnostics"][0]["code"], "E0601");
  EXPECT_EQ(earlier[0]["diagnostics"][0]["message"], "no folder 'nowhere'");
  EXPECT_EQ(earlier[1]["status"], "interrupted");
  EXPECT_EQ(earlier[1]["diagnostics"].size(), 0u);
}

}  // namespace
}  // namespace runner
