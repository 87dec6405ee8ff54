#include "runner/parent/run/hooks.h"

#include <csignal>
#include <limits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/schema_texts.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

class HooksTest : public testing::Test {
 protected:
  void use(const Json& hooks) {
    recipe_ = written(Json{{"schema", 1}, {"hooks", hooks}}.dump());
    hooks_.emplace(
        recipe_, [this] { return now_; },
        [this](const Diagnostic& warning) {
          EXPECT_EQ(warning.severity, Severity::kWarning);
          warnings_.push_back(warning.pointer + " " + warning.message);
        });
  }
  /// A command that appends its input, after `prefix`, to the file "said".
  Json telling(const std::string& prefix = "") const {
    return {"sh", "-c", "printf '%s' '" + prefix + "' >>\"$0\"; cat >>\"$0\"", folder_ / "said"};
  }
  void measure(const std::string& name, double value, std::int64_t step) {
    hooks_->see(NodeMetric{"train", name, value, step}, "/r");
  }
  void wait() {
    while (hooks_->tick()) std::this_thread::yield();
  }
  std::string said() const { return folder_.read("said"); }

  const TemporaryFolder folder_;
  const SignalSource signals_;  // as during a run
  std::chrono::steady_clock::time_point now_;
  Value recipe_;
  std::optional<Hooks> hooks_;
  std::vector<std::string> warnings_;
};

TEST_F(HooksTest, CommandDoesNotInheritTheRank) {
  setenv("RANK", "0", /*overwrite=*/1);
  use({{"after_validation", {{"sh", "-c", "echo \"${RANK-none}\" >\"$0\"", folder_ / "said"}}}});
  measure("validation/loss", 0.5, 2);
  measure("train/loss", 2, 3);
  wait();
  unsetenv("RANK");
  EXPECT_EQ(said(), "none\n");
}

TEST_F(HooksTest, ValidationIsReportedOnceItIsComplete) {
  use({{"after_validation", {telling()}}});
  measure("train/loss", 3, 1);
  measure("validation/loss", 0.5, 2);
  measure("validation/accuracy", 0.25, 2);
  EXPECT_FALSE(hooks_->tick()) << "more metrics of the epoch may follow";
  measure("train/loss", 2, 3);
  EXPECT_TRUE(hooks_->tick());
  wait();
  EXPECT_EQ(said(), R"({"event":"after_validation","run":"/r","node":"train","step":2,)"
                    R"("metrics":{"validation/loss":0.5,"validation/accuracy":0.25}})"
                    "\n");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(HooksTest, LastValidationIsReportedBeforeTheEnd) {
  use({{"after_validation", {telling("v ")}}, {"after_run", {telling("a "), telling("b ")}}});
  measure("validation/loss", 0.5, 2);
  hooks_->finish("after_run", "/r", {{"status", "finished"}});
  const std::string end = R"({"event":"after_run","run":"/r","status":"finished"})"
                          "\n";
  EXPECT_THAT(said(), testing::StartsWith("v {\"event\":\"after_validation\""));
  EXPECT_THAT(said(), testing::EndsWith("\na " + end + "b " + end));
}

TEST_F(HooksTest, OnlyTheCommandsForTheEventRun) {
  use({{"after_run", {telling("a")}}, {"on_failure", {telling("f")}}});
  hooks_->finish("on_failure", "/r", Json::object());
  EXPECT_THAT(said(), testing::StartsWith("f{"));
}

TEST_F(HooksTest, ValidationOfAReusedNodeIsNotReported) {
  use({{"after_validation", {telling()}}});
  hooks_->see(Reused{"train", "/earlier"}, "/r");
  measure("validation/loss", 0.5, 2);
  measure("train/loss", 2, 3);
  EXPECT_FALSE(hooks_->tick());
}

TEST_F(HooksTest, ProgramNameMayLookLikeAnOptionAndNanIsReported) {
  use({{"after_validation", {{"-x"}, telling()}}});
  measure("validation/loss", std::numeric_limits<double>::quiet_NaN(), 2);
  measure("train/loss", 2, 3);
  wait();
  EXPECT_THAT(said(), HasSubstr(R"({"validation/loss":"nan"})"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("exited with code 127: ")));
}

TEST_F(HooksTest, RecipeWithoutHooksStartsNoCommands) {
  use(Json::object());
  measure("validation/loss", 0.5, 2);
  measure("train/loss", 2, 3);
  hooks_->finish("after_run", "/r", Json::object());
  EXPECT_FALSE(hooks_->tick());
}

TEST_F(HooksTest, FailingCommandIsAWarningWithItsLastLine) {
  use({{"after_run",
        {{"sh", "-c", "echo first; echo 'no network' >&2; exit 3"},
         {"sh", "-c", "kill -TERM $$"},
         {folder_ / "none"},
         telling("goes on")}}});
  hooks_->finish("after_run", "/r", Json::object());
  ASSERT_EQ(warnings_.size(), 3u);
  EXPECT_EQ(warnings_[0],
            "/hooks/after_run the command 'sh' of hooks.after_run exited with code "
            "3: no network");
  EXPECT_EQ(warnings_[1],
            "/hooks/after_run the command 'sh' of hooks.after_run was killed by SIGTERM");
  EXPECT_THAT(warnings_[2], HasSubstr("exited with code 127: "));
  EXPECT_THAT(said(), testing::StartsWith("goes on"));
}

TEST_F(HooksTest, SlowCommandIsKilledWithItsChildren) {
  use({{"after_validation", {{"sh", "-c", "sleep 1000 & wait"}}}, {"timeout_seconds", 7}});
  measure("validation/loss", 0.5, 2);
  measure("train/loss", 2, 3);
  now_ += std::chrono::seconds(6);
  EXPECT_TRUE(hooks_->tick());
  EXPECT_THAT(warnings_, IsEmpty());
  now_ += std::chrono::seconds(1);
  EXPECT_FALSE(hooks_->tick());
  EXPECT_THAT(warnings_, ElementsAre("/hooks/after_validation the command 'sh' of "
                                     "hooks.after_validation took longer than 7 s and was killed"));
}

TEST_F(HooksTest, NewValidationReplacesAWaitingOne) {
  ASSERT_EQ(mkfifo((folder_ / "gate").c_str(), 0600), 0);
  const std::string script =
      "if [ -p \"$0/gate\" ]; then cat \"$0/gate\"; rm \"$0/gate\"; fi; cat >>\"$0/said\"";
  use({{"after_validation", {{"sh", "-c", script, folder_.path()}}}});
  for (const std::int64_t step : {1, 2, 3}) {
    measure("validation/loss", 0.5, step);
    measure("train/loss", 2, step);
  }
  // Only the first command finds the gate and waits there, while steps 2 and 3 are reported.
  WorkerProcess opener = *WorkerProcess::start(
      {.program = "/bin/sh", .arguments = {"-c", ": >\"$0\"", folder_ / "gate"}});
  wait();
  EXPECT_THAT(said(), HasSubstr(R"("step":1,)"));
  EXPECT_THAT(said(), testing::Not(HasSubstr(R"("step":2,)")));
  EXPECT_THAT(said(), HasSubstr(R"("step":3,)"));
  hooks_->finish("after_run", "/r", Json::object());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("1 validation was not reported")));
}

TEST_F(HooksTest, CommandThatIgnoresItsInputDoesNotDelayTheRun) {
  use({{"after_run", {{"true"}}}});
  hooks_->finish("after_run", "/r", {{"much", std::string(1 << 20, 'x')}});
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(HooksTest, SignalEndsTheWait) {
  use({{"after_run", {{"sleep", "1000"}, telling("never")}}});
  raise(SIGTERM);
  hooks_->finish("after_run", "/r", Json::object());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("was stopped by SIGTERM")));
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace runner
