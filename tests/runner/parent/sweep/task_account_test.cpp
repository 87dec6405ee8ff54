#include "runner/parent/sweep/task_account.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;

TEST(TaskAccount, EventsReadBackUnchanged) {
  const TemporaryFolder folder;
  TaskAccount(folder / "0.jsonl").add({.place = "12_0 on node1"});
  TaskAccount(folder / "0.jsonl")
      .add({.state = TrialState::kFailed,
            .exit = 1,
            .seconds = 2.5,
            .reason = "no",
            .said = {"a", "b"}});
  const std::vector<TaskEvent> events = TaskAccount::read(folder / "0.jsonl");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].state, TrialState::kRunning);
  EXPECT_EQ(events[0].place, "12_0 on node1");
  EXPECT_EQ(events[1].state, TrialState::kFailed);
  EXPECT_EQ(events[1].exit, 1);
  EXPECT_EQ(events[1].seconds, 2.5);
  EXPECT_EQ(events[1].reason, "no");
  EXPECT_THAT(events[1].said, ElementsAre("a", "b"));
}

TEST(TaskAccount, TruncatedLineIsLeftOut) {
  const TemporaryFolder folder;
  EXPECT_TRUE(TaskAccount::read(folder / "0.jsonl").empty());
  const std::string whole = "{\"state\":\"running\",\"place\":\"on a\"}\n";
  folder.write("0.jsonl", whole + "{\"state\":\"fini");
  EXPECT_EQ(TaskAccount::read(folder / "0.jsonl").size(), 1u);
  TaskAccount(folder / "0.jsonl").add({.state = TrialState::kInterrupted, .exit = 75});
  EXPECT_EQ(folder.read("0.jsonl"),
            whole + "{\"state\":\"interrupted\",\"exit\":75,\"seconds\":0.0}\n");
}

TEST(TaskAccount, MalformedEventsAreLeftOut) {
  const TemporaryFolder folder;
  folder.write("0.jsonl",
               "[]\n{\"state\":\"gone\"}\n{\"state\":\"finished\",\"exit\":0,\"seconds\":1}\n");
  ASSERT_EQ(TaskAccount::read(folder / "0.jsonl").size(), 1u);
}

}  // namespace
}  // namespace runner
