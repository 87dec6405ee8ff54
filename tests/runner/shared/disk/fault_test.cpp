#include "runner/shared/disk/fault.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include <gtest/gtest.h>

#include "runner/shared/disk/new_file.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

std::string refusal(std::string_view text) {
  try {
    fault_from(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "it was read";
}

TEST(Fault, IsReadFromAString) {
  const Fault killed = fault_from("rename:2");
  EXPECT_EQ(killed.point, Fault::Point::kRename);
  EXPECT_EQ(killed.count, 2);
  EXPECT_EQ(killed.action, Fault::Action::kKill);
  EXPECT_EQ(fault_from("any:17:full").action, Fault::Action::kFull);
  EXPECT_EQ(fault_from("folder:1:fail").point, Fault::Point::kFolder);
}

TEST(Fault, InvalidTextIsRejected) {
  EXPECT_EQ(refusal("wriet:1"),
            "RETORT_FAULT 'wriet:1': 'wriet' is not one of create, write, sync, rename, folder, "
            "remove, step, event, alloc, any");
  EXPECT_EQ(refusal("write:1:die"),
            "RETORT_FAULT 'write:1:die': 'die' is not one of kill, kill_both, fail, lose, full");
  for (const char* text :
       {"write", "write:", "write:0", "write:-1", "write:1x", "write:99999999999999999999"}) {
    EXPECT_EQ(refusal(text), std::string("RETORT_FAULT '") + text +
                                 "': a call number of at least 1 must follow the first colon");
  }
}

TEST(Fault, MayBeLimitedToAProgram) {
  EXPECT_EQ(fault_for("retort", "step:3")->count, 3);
  EXPECT_EQ(fault_for("retort-worker", "retort-worker/event:4:kill_both")->action,
            Fault::Action::kKillBoth);
  EXPECT_FALSE(fault_for("retort", "retort-worker/step:3"));
  EXPECT_THROW(fault_for("retort", "retort-worker/stop:3"), std::invalid_argument);
}

TEST(Fault, AllocationCanOnlyFail) {
  EXPECT_EQ(fault_from("alloc:9:fail").point, Fault::Point::kAllocation);
  EXPECT_EQ(refusal("alloc:9"), "RETORT_FAULT 'alloc:9': an allocation can only fail");
}

TEST(FaultyStorage, CountsPointsThatAreNotSystemCalls) {
  FaultyStorage storage(disk(), fault_from("step:2:fail"));
  EXPECT_FALSE(storage.reach(Fault::Point::kStep));
  EXPECT_FALSE(storage.reach(Fault::Point::kEvent));
  EXPECT_EQ(storage.reach(Fault::Point::kStep), Fault::Action::kFail);
  EXPECT_FALSE(storage.reach(Fault::Point::kStep));
}

TEST(FaultyStorage, CallFailsOnce) {
  const TemporaryFolder folder;
  FaultyStorage storage(disk(), fault_from("write:2:fail"));
  write_atomically(folder / "a", "first", storage);
  EXPECT_THROW(write_atomically(folder / "a", "second", storage), WriteError);
  EXPECT_EQ(folder.read("a"), "first");
  write_atomically(folder / "a", "third", storage);
  EXPECT_EQ(folder.read("a"), "third");
}

TEST(FaultyStorage, FullDiskStaysFull) {
  const TemporaryFolder folder;
  FaultyStorage storage(disk(), fault_from("write:1:full"));
  NewFile file(folder / "a", storage);
  EXPECT_THROW(file.append("1234"), WriteError);
  EXPECT_EQ(folder.read("a"), "12");
  EXPECT_THROW(file.append("56"), WriteError);
  EXPECT_THROW(NewFile(folder / "b", storage), WriteError);
  EXPECT_EQ(storage.free_bytes(folder.path()), 0);
  EXPECT_EQ(storage.remove(folder / "a"), 0);
}

TEST(FaultyStorage, ProgramIsKilledInTheMiddleOfAWrite) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    FaultyStorage storage(disk(), fault_from("write:1"));
    NewFile(folder / "a", storage).append("1234");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(folder.read("a"), "12");
}

}  // namespace
}  // namespace runner
