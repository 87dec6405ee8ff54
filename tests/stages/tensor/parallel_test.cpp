#include "stages/tensor/parallel.h"

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/scoped_threads.h"

namespace stages {
namespace {

/// The arguments of the calls, and the threads that made them.
struct Calls {
  std::set<std::pair<std::int64_t, std::int64_t>> parts;
  std::set<std::thread::id> threads;
};

Calls calls(std::int64_t count, std::int64_t grain) {
  Calls result;
  std::mutex mutex;
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    result.parts.emplace(begin, end);
    result.threads.insert(std::this_thread::get_id());
  });
  return result;
}

/// 0 … count - 1, each once and in order.
void expect_all_of(std::int64_t count, const Calls& of) {
  std::int64_t next = 0;
  for (const auto& [begin, end] : of.parts) {
    EXPECT_EQ(begin, next) << "of " << count;
    EXPECT_LT(begin, end) << "of " << count;
    next = end;
  }
  EXPECT_EQ(next, count);
}

TEST(ParallelTest, EachThreadRunsItsPart) {
  for (const int threads : {1, 2, 3}) {
    const ScopedThreads some(threads);
    for (const std::int64_t count : {3, 7, 1000}) {
      const Calls found = calls(count, 1);
      expect_all_of(count, found);
      EXPECT_EQ(found.parts.size(), threads);
      EXPECT_EQ(found.threads.size(), threads);
    }
  }
}

TEST(ParallelTest, NoPartIsSmallerThanTheGrain) {
  const ScopedThreads three(3);
  for (const auto& [count, parts] :
       {std::pair(0, 0), {1, 1}, {9, 1}, {19, 1}, {20, 2}, {29, 2}, {30, 3}, {300, 3}}) {
    const Calls found = calls(count, 10);
    expect_all_of(count, found);
    EXPECT_EQ(found.parts.size(), parts) << count;
  }
}

TEST(ParallelTest, NestedCallIsALoop) {
  const ScopedThreads two(2);
  std::mutex mutex;
  parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    const Calls inner = calls(100, 1);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(inner.parts, (std::set{std::pair<std::int64_t, std::int64_t>(0, 100)}));
    EXPECT_TRUE(inner.threads.contains(std::this_thread::get_id()));
  });
}

TEST(ParallelTest, ExceptionReachesTheCaller) {
  for (const int threads : {1, 2}) {
    const ScopedThreads some(threads);
    EXPECT_THROW(
        parallel_for(8, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("no"); }),
        std::runtime_error);
  }
}

}  // namespace
}  // namespace stages
