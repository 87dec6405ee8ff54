#include "stages/machine/cpu_pool.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "tests/support/sanitized.h"

namespace stages {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

at::Tensor bytes(std::int64_t count) { return torch::empty({count}, torch::kByte); }

/// Returns the resident bytes of the pool's addresses, according to the kernel.
std::int64_t resident(const CpuPool& pool) {
  std::ifstream maps("/proc/self/smaps");
  std::int64_t bytes = 0;
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    long kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      is_ours = pool.contains(reinterpret_cast<const void*>(begin));
    else if (is_ours && std::sscanf(line.c_str(), "Rss: %ld kB", &kilobytes) == 1)
      bytes += kilobytes * 1024;
  }
  return bytes;
}

TEST(CpuPool, TensorsUseThePoolDuringItsLifetime) {
  at::Tensor inside;
  {
    const CpuPool pool;
    EXPECT_EQ(CpuPool::of(c10::GetCPUAllocator()), &pool);
    inside = torch::ones({1000});
    EXPECT_TRUE(pool.contains(inside.data_ptr()));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(inside.data_ptr()) % 64, 0U);
    EXPECT_EQ(pool.allocated(), 4032);
    EXPECT_EQ(bytes(0).data_ptr(), nullptr);
  }
  EXPECT_EQ(CpuPool::of(c10::GetCPUAllocator()), nullptr);
  EXPECT_EQ(inside.sum().item<float>(), 1000) << "a tensor may outlive it";
}

TEST(CpuPool, ReservedBytesEqualResidentBytes) {
  CpuPool pool;
  std::mt19937 random(1);
  std::deque<at::Tensor> kept;
  for (int i = 0; i < 400; ++i) {
    kept.push_back(
        torch::ones({static_cast<std::int64_t>(1 + random() % (6 * kMiB))}, torch::kByte));
    if (kept.size() > 20) kept.erase(kept.begin() + random() % 20);
    if (i % 50 == 49) {
      pool.empty_cache();
      EXPECT_LE(resident(pool), pool.reserved());
    }
    if (i % 50 == 20) {
      EXPECT_LE(resident(pool), pool.reserved());
      EXPECT_GE(resident(pool), pool.allocated() - 2 * kMiB)
          << "everything that is kept was written";
    }
  }
  kept.clear();
  EXPECT_GT(resident(pool), 0);
  pool.empty_cache();
  EXPECT_EQ(pool.reserved(), 0);
  EXPECT_EQ(resident(pool), 0);
}

TEST(CpuPool, RefusesBlocksAboveTheLimitAndRecovers) {
  CpuPool pool;
  pool.set_limit(8 * kMiB);
  at::Tensor half = bytes(4 * kMiB);
  try {
    bytes(6 * kMiB);
    FAIL() << "given";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(
        error.what_without_backtrace(),
        testing::HasSubstr("tried to reserve 6.0 MiB while 4.0 MiB of 8.0 MiB are reserved"));
  }
  EXPECT_EQ(pool.wanted_limit(), 10 * kMiB);
  half.reset();
  EXPECT_EQ(bytes(6 * kMiB).numel(), 6 * kMiB);
}

TEST(CpuPool, RefusalByTheSystemIsOutOfMemory) {
  CpuPool pool(128 * kMiB);  // address space, which is exhausted before memory is
  pool.set_limit(512 * kMiB);
  std::string message;
  try {
    bytes(256 * kMiB);
  } catch (const c10::OutOfMemoryError& error) {
    message = error.what_without_backtrace();
  }
  EXPECT_THAT(message, testing::HasSubstr("tried to reserve 256 MiB while 0 B of 512 MiB are "
                                          "reserved, and the system has no more memory"));
  EXPECT_EQ(pool.reserved(), 0);
  EXPECT_EQ(torch::ones({64 * kMiB}, torch::kByte).numel(), 64 * kMiB);
}

TEST(CpuPool, ThreadsMayFreeBlocksOfOtherThreads) {
  CpuPool pool;
  const CountingAllocator counter;
  std::mutex mutex;
  std::vector<at::Tensor> shared;
  std::atomic<int> damaged = 0;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const std::int64_t size = 1 + random() % 200'000;
      at::Tensor mine = torch::full({size}, size % 251, torch::kByte), other;
      {
        const std::lock_guard lock(mutex);
        if (shared.size() < 30) {
          shared.push_back(mine);
          continue;
        }
        std::swap(other, shared[random() % shared.size()]);
        if (!other.defined()) other = mine;
      }
      const auto* const data = other.const_data_ptr<std::uint8_t>();
      if (data[0] != other.numel() % 251 || data[other.numel() - 1] != other.numel() % 251)
        ++damaged;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0);
  shared.clear();
  EXPECT_EQ(pool.allocated(), 0);
  EXPECT_EQ(counter.live_bytes(), 0);
}

TEST(CpuPool, ThreadOutsideAStepMovesNoneOfItsBlocks) {
  const CpuPool pool;
  const auto places = [&](bool is_disturbed) {
    std::vector<const void*> places;
    for (std::int64_t i = 1; i <= 5; ++i) {
      at::Tensor beside;
      std::thread([&] {
        const ScopedLaneBeside lane;
        if (is_disturbed) beside = bytes(i * kMiB);
      }).join();
      places.push_back(bytes(i * kMiB).data_ptr());
    }
    return places;
  };
  EXPECT_EQ(places(false), places(true));
  EXPECT_EQ(pool.reserved(Lane::kStep), 5 * kMiB);
  EXPECT_EQ(pool.reserved(Lane::kBeside), 5 * kMiB);
}

TEST(CpuPool, ForkedChildHasACopy) {
  const CpuPool pool;
  const at::Tensor before = torch::ones({1000});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const at::Tensor own = before + before;
    before.zero_();
    _exit(own.sum().item<float>() == 2000 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(before.sum().item<float>(), 1000);
}

TEST(CpuPool, LimitedAddressSpaceIsShared) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer needs more address space than any limit allows";
  const pid_t child = fork();  // a limit on the address space cannot be lower than what a sanitizer
                               // or a thread needs later
  ASSERT_GE(child, 0);
  if (child == 0) {
    rlimit few{.rlim_cur = rlim_t{1} << 36, .rlim_max = rlim_t{1} << 36};
    if (setrlimit(RLIMIT_AS, &few) != 0) _exit(3);
    try {
      const CpuPool pool;
      const at::Tensor inside = bytes(64 * kMiB);
      _exit(pool.contains(inside.data_ptr()) && std::malloc(64 * kMiB) ? 0 : 1);
    } catch (const std::exception&) {
      _exit(2);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(CpuPool, CountingAllocatorOnTopOfThePoolFindsAndLimitsIt) {
  CpuPool pool;
  CountingAllocator counter;
  EXPECT_EQ(counter.pool(), &pool);
  EXPECT_EQ(CountingAllocator().pool(), &pool) << "by another counter";
  counter.set_limit(8 * kMiB);
  EXPECT_EQ(pool.limit(), 8 * kMiB);
  const at::Tensor kept = bytes(5 * kMiB);
  EXPECT_EQ(pool.allocated(), 5 * kMiB + CountingAllocator::kHeadBytes);
  EXPECT_THROW(bytes(4 * kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(counter.refusals(), 1);
  EXPECT_EQ(counter.live_bytes(), 5 * kMiB);
  const auto refused = counter.take_refused();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->tried, 4 * kMiB);
  EXPECT_EQ(refused->live, 5 * kMiB);
  EXPECT_EQ(refused->taken, pool.reserved());
  EXPECT_EQ(refused->limit, 8 * kMiB);
  ASSERT_EQ(refused->alive.size(), 1U);
  counter.set_limit(refused->wanted - 1);
  EXPECT_THROW(bytes(4 * kMiB), c10::OutOfMemoryError);
  counter.set_limit(refused->wanted);
  EXPECT_EQ(bytes(4 * kMiB).numel(), 4 * kMiB);
}

}  // namespace
}  // namespace stages
