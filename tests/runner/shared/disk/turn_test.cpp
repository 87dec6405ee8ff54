#include "runner/shared/disk/descriptor.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

bool never() { return false; }
void silent() {}

TEST(Turn, SecondTurnWaitsUntilTheFirstEnds) {
  const TemporaryFolder folder;
  const auto file = folder / "a/b.turn";
  auto first = Turn::take(file, never, silent);
  ASSERT_TRUE(first);
  std::atomic<bool> has_waited = false, has_ended = false, is_done = false, saw_done = false;
  std::thread second([&] {
    const auto turn = Turn::take(file, never, [&] { has_waited = true; });
    saw_done = turn && is_done;
    has_ended = true;
  });
  while (!has_waited && !has_ended) std::this_thread::yield();
  is_done = true;
  first.reset();
  second.join();
  EXPECT_TRUE(saw_done);
  EXPECT_FALSE(std::filesystem::exists(file)) << "nothing is left";
}

TEST(Turn, OnlyOneOfManyWorksAtATime) {
  const TemporaryFolder folder;
  std::atomic<int> at_work = 0, most = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < 8; ++i) {
    all.emplace_back([&] {
      const auto turn = Turn::take(folder / "x", never, silent);
      ASSERT_TRUE(turn);
      const int now = ++at_work;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
      std::this_thread::yield();
      --at_work;
    });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(most, 1);
}

TEST(Turn, CanceledWaitReturnsNoTurn) {
  const TemporaryFolder folder;
  const auto first = Turn::take(folder / "x", never, silent);
  int asked = 0;
  EXPECT_FALSE(Turn::take(
      folder / "x", [&] { return ++asked > 2; }, silent));
}

TEST(Turn, NoTurnIsTakenIfTheFileCannotBeCreated) {
  const TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_FALSE(Turn::take(folder / "file/x", never, silent));
  std::filesystem::create_symlink(folder / "file", folder / "link");
  EXPECT_FALSE(Turn::take(folder / "link", never, silent)) << "no link is followed";
}

}  // namespace
}  // namespace runner
