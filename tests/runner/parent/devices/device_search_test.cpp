#include "runner/parent/devices/device_search.h"

#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/take_device_fixture.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

using DeviceSearchTest = TakeDeviceTest;

TEST_F(DeviceSearchTest, WaitsUntilMemoryIsFreeInTwoConsecutiveChecks) {
  machine_.gpu(80, 2).holders = {{4711, FakeMachine::gib(78)}};
  request_.wait = true;
  request_.need = FakeMachine::gib(12);
  int looks = 0;
  machine_.on_sleep = [&] {
    static constexpr int kFree[] = {2, 40, 3, 30, 50};  // freed, taken again, freed for good
    machine_.now.devices[0].free = FakeMachine::gib(kFree[looks++]);
    if (looks == 4) machine_.now.devices[0].holders.clear();
  };
  EXPECT_EQ(told(take(12)), "taken: cuda:0");
  EXPECT_EQ(looks, 5);
  EXPECT_EQ(machine_.time.time_since_epoch(), 5 * 30s);
  EXPECT_THAT(
      machine_.said,
      ElementsAre(
          "device: waiting for a GPU with 12 GiB free, at most 1:00:00",
          "  GPU 0 (NVIDIA A100 80GB): 2.0 GiB of 80 GiB free, process 4711 (78 GiB)",
          "  GPU 0 (NVIDIA A100 80GB): 30 GiB of 80 GiB free",
          HasSubstr("device: GPU 0 (NVIDIA A100 80GB), 50 GiB of 80 GiB free; 12 GiB needed")));
}

TEST_F(DeviceSearchTest, WaitEndsAtItsTimeout) {
  machine_.gpu(80, 2);
  request_.wait = true;
  request_.timeout = 100s;
  const auto refused = take(12);
  EXPECT_EQ(
      told(refused),
      "no GPU has 12 GiB (the plan of train) free after waiting for device.wait_timeout_minutes\n"
      "GPU 0 (NVIDIA A100 80GB): 2.0 GiB of 80 GiB free");
  EXPECT_EQ(help(refused),
            "raise device.wait_timeout_minutes, or allow the CPU: device.fallback=[cpu]");
  EXPECT_EQ(machine_.time.time_since_epoch(), 100s);  // three intervals and a last check
}

TEST_F(DeviceSearchTest, SignalEndsAWait) {
  machine_.gpu(80, 2);
  request_.wait = true;
  request_.fallback = {"cpu"};
  machine_.on_sleep = [&] {
    machine_.signal = machine_.time.time_since_epoch() < 90s ? std::nullopt : std::optional(SIGINT);
  };
  const auto interrupted = take(12);
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.errors().front().message, "interrupted after waiting 0:01:30 for a GPU");
  EXPECT_EQ(exit_code(interrupted.errors()), ExitCode::kInterrupted);
  machine_.on_sleep = [&] { machine_.signal = SIGTERM; };
  const auto terminated = take(12);
  ASSERT_FALSE(terminated);
  EXPECT_EQ(terminated.errors().front().message,
            "stopped by a signal after waiting 0:00:30 for a GPU");
  EXPECT_EQ(exit_code(terminated.errors()), ExitCode::kTerminated);
}

TEST_F(DeviceSearchTest, RunThatLeftAGpuTakesAnotherDespiteItsRecipe) {
  machine_.gpu(80, 80);
  machine_.gpu(80, 20);
  machine_.gpu(80, 40);
  request_.select = "cuda:0";
  request_.fallback = {"cpu"};
  request_.preferred = "GPU-aaaaaaaa-0000";
  request_ = request_for_another(request_, {"GPU-aaaaaaaa-0000"});
  const auto other = take(12);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->device->index, 2);
  EXPECT_TRUE(other->is_only_visible);
  EXPECT_TRUE(other->lock);
  const auto refused = take(30);
  EXPECT_EQ(told(refused),
            "every GPU with enough memory is in use\nGPU 1 (NVIDIA A100 80GB): 20 GiB of 80 GiB "
            "free\nGPU 2 (NVIDIA A100 80GB): 40 GiB of 80 GiB free; another run of yours uses it")
      << "it falls back to memory.on_oom, not to device.fallback";
  request_.left = {"GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000", "GPU-cccccccc-0000"};
  EXPECT_EQ(told(take(1)),
            "device 'cuda' is not available: the run has tried every GPU that it may use");
}

TEST_F(DeviceSearchTest, LastCheckOfAWaitCounts) {
  machine_.gpu(80, 2);
  request_.wait = true;
  request_.timeout = 45s;
  machine_.on_sleep = [&] {
    if (machine_.time.time_since_epoch() == 45s)
      machine_.now.devices[0].free = FakeMachine::gib(40);
  };
  EXPECT_EQ(told(take(12)), "taken: cuda:0");
}

TEST_F(DeviceSearchTest, TimedOutWaitMayFallBack) {
  machine_.gpu(80, 2);
  request_.wait = true;
  request_.fallback = {"cpu"};
  EXPECT_EQ(told(take(12)), "taken: cpu");
  EXPECT_EQ(machine_.time.time_since_epoch(), 60min);
}

TEST_F(DeviceSearchTest, DeviceThatVanishesEndsTheWait) {
  machine_.gpu(80, 2);
  request_.wait = true;
  machine_.on_sleep = [&] {
    machine_.now.devices.clear();
    machine_.now.problems = {
        "GPU 0: it is lost: it has fallen off the bus or failed; restart the machine"};
  };
  EXPECT_EQ(told(take(12)),
            "the GPUs that the run was waiting for are gone\n"
            "GPU 0: it is lost: it has fallen off the bus or failed; restart the machine");
}

TEST_F(DeviceSearchTest, WaitsForAnotherRunOfTheSameUser) {
  machine_.gpu(80, 80);
  auto other = take(12);
  request_.wait = true;
  int looks = 0;
  machine_.on_sleep = [&] {
    if (++looks == 2) *other = TakenDevice{};
  };
  machine_.said.clear();
  EXPECT_EQ(told(take(12)), "taken: cuda:0");
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(machine_.said[0], "device: waiting for a GPU, at most 1:00:00");
  EXPECT_EQ(machine_.said[1],
            "  GPU 0 (NVIDIA A100 80GB): 80 GiB of 80 GiB free; another run of yours uses it");
}

TEST_F(DeviceSearchTest, LaterRunYieldsToWaitingRuns) {
  machine_.gpu(80, 80);
  machine_.gpu(80, 40);
  const auto folder = LockFolder::open(locks());
  ASSERT_TRUE(folder);
  const DeviceTicket waiting(*folder,
                             {FakeMachine::gib(50), {"GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"}});
  const auto mine = take(12);
  EXPECT_EQ(mine->device->index, 1);  // the ticket wants GPU 0 and cannot use GPU 1
  EXPECT_THAT(told(take(12)), HasSubstr("every GPU with enough memory is in use"));
}

TEST_F(DeviceSearchTest, TicketForTooMuchMemoryIsIgnored) {
  machine_.gpu(80, 40);
  const auto folder = LockFolder::open(locks());
  ASSERT_TRUE(folder);
  const DeviceTicket waiting(*folder, {FakeMachine::gib(50), {"GPU-aaaaaaaa-0000"}});
  EXPECT_EQ(told(take(12)), "taken: cuda:0");
}

TEST_F(DeviceSearchTest, TicketForAnotherGpuIsIgnored) {
  machine_.gpu(80, 80);
  const auto folder = LockFolder::open(locks());
  ASSERT_TRUE(folder);
  const DeviceTicket waiting(*folder, {FakeMachine::gib(50), {"GPU-bbbbbbbb-0000"}});
  EXPECT_EQ(told(take(12)), "taken: cuda:0");
}

TEST_F(DeviceSearchTest, WaitEndsOnceNoGpuCanSuffice) {
  machine_.gpu(80, 80);
  auto other = take(12);
  request_.wait = true;
  machine_.on_sleep = [&] { *other = TakenDevice{}; };
  EXPECT_THAT(told(take(81)), HasSubstr("no GPU here has 81 GiB (the plan of train)\n"));
  EXPECT_EQ(machine_.time.time_since_epoch(), 2 * 30s);
}

TEST_F(DeviceSearchTest, WaitForALargeGpuLeavesSmallOnesToOthers) {
  machine_.gpu(80, 40);
  auto other = take(12);
  request_.wait = true;
  request_.timeout = 150s;
  std::vector<std::string> later;
  machine_.on_sleep = [&] {
    *other = TakenDevice{};
    FakeMachine same;
    same.gpu(80, 40);
    DeviceRequest request = request_;
    request.wait = false;
    later.push_back(told(take_device(request, needing(12), same.world(locks()))));
  };
  EXPECT_THAT(told(take(50)), HasSubstr("no GPU has 50 GiB (the plan of train) free after waiting "
                                        "for device.wait_timeout_minutes"));
  ASSERT_EQ(later.size(), 5U);
  EXPECT_THAT(later.front(), HasSubstr("every GPU with enough memory is in use"))
      << "the first ticket may be waiting for it";
  EXPECT_EQ(later.back(), "taken: cuda:0");
}

/// Twenty threads, each with its own view of the same four GPUs, take devices.
TEST_F(DeviceSearchTest, TwentyRunsOnFourGpusNeverShareOneAndAllAreServed) {
  std::mutex mutex;
  std::map<std::string, int> holders;  // by UUID
  std::atomic<int> served = 0, shared = 0;
  std::vector<std::thread> runs;
  for (int i = 0; i < 20; ++i) {
    runs.emplace_back([&] {
      FakeMachine machine;
      for (int gpu = 0; gpu < 4; ++gpu) machine.gpu(80, 80);
      DeviceRequest request = request_;
      request.wait = true;
      DeviceWorld world = machine.world(locks());
      world.sleep = [&](std::chrono::steady_clock::duration span) {
        machine.time += span / 1000;  // waits as long as necessary
        std::this_thread::sleep_for(1ms);
        return std::optional<int>();
      };
      const auto taken = take_device(request, needing(12), world);
      if (!taken) return;
      {
        const std::lock_guard lock(mutex);
        if (++holders[taken->device->uuid] > 1) ++shared;
      }
      std::this_thread::sleep_for(3ms);
      const std::lock_guard lock(mutex);
      --holders[taken->device->uuid];
      ++served;
    });
  }
  for (std::thread& run : runs) run.join();
  EXPECT_EQ(served, 20);
  EXPECT_EQ(shared, 0);
}

}  // namespace
}  // namespace runner
