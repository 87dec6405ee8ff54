#include "runner/parent/serve/run_events.h"

#include <gmock/gmock.h>

#include "runner/shared/record/recorded_run.h"
#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string metric(int step) {
  return R"({"node": "train", "name": "train/loss", "value": 2.5, "step": )" +
         std::to_string(step) + R"(, "time": 1})" + "\n";
}

TEST(RunEvents, RunIsFollowedUntilItEnds) {
  const TemporaryFolder folder;
  write_run(folder, "r", "0.5", "model.lora", "running");
  folder.write("r/metrics.jsonl", metric(1));
  const auto lock = RunLock::take(folder / "r");
  ASSERT_TRUE(lock) << "without a lock, the run counts as killed";
  const auto next = run_events(folder / "r");
  EXPECT_THAT(*next(), testing::StartsWith("event: progress\ndata: running  train  "));
  EXPECT_EQ(*next(), "") << "nothing has changed";
  folder.write("r/metrics.jsonl", metric(1) + metric(2));
  EXPECT_THAT(*next(), Not(HasSubstr("event: report"))) << "not so soon";
  std::string events;
  for (int i = 0; i < 5; ++i) events += *next();
  EXPECT_THAT(events, HasSubstr("event: report\ndata: changed\n\n"));
  write_run(folder, "r");
  EXPECT_THAT(*next(), testing::EndsWith("event: end\ndata: finished\n\n"));
  EXPECT_EQ(next(), std::nullopt);
}

TEST(RunEvents, StringsCannotAddLines) {
  const TemporaryFolder folder;
  write_run(folder, "r", "0.5", "model.lora", "fin\\nevent: x");
  const std::string events = *run_events(folder / "r")();
  EXPECT_THAT(events, Not(HasSubstr("\nevent: x")));
}

}  // namespace
}  // namespace runner
