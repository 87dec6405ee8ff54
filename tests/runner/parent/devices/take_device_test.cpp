#include "runner/parent/devices/take_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/take_device_fixture.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

TEST_F(TakeDeviceTest, AutoTakesTheGpuWithTheMostFreeMemory) {
  machine_.gpu(80, 20);
  machine_.gpu(80, 70);
  const auto taken = take(12);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->select, "cuda:0");
  EXPECT_EQ(taken->device->uuid, "GPU-bbbbbbbb-0000");
  EXPECT_TRUE(taken->is_only_visible);
  EXPECT_EQ(taken->driver, "580.82.07");
  EXPECT_THAT(
      machine_.said,
      ElementsAre(
          "device: GPU 1 (NVIDIA A100 80GB), 70 GiB of 80 GiB free; 12 GiB needed (the plan of "
          "train); it has the most free memory among those that are free and large enough"));
}

TEST_F(TakeDeviceTest, AutoWithoutDriverUsesTheCpuAndReportsItOnce) {
  machine_.now = {.why_none = "this machine has no NVIDIA driver"};
  request_.wait = true;
  request_.fallback = {"gpu", "cpu"};
  const auto taken = take(12);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->select, "cpu");
  EXPECT_FALSE(taken->device);
  EXPECT_THAT(machine_.said, ElementsAre("device: cpu, since this machine has no NVIDIA driver"));
  EXPECT_EQ(machine_.time.time_since_epoch(), 0s);
}

TEST_F(TakeDeviceTest, CudaWithoutDriverIsLeftToTheWorkerOrFallsBack) {
  machine_.now = {.why_none = "this machine has no NVIDIA driver"};
  request_.select = "cuda";
  EXPECT_EQ(told(take(12)), "taken: cuda");  // the worker checks it; it may have CUDA without NVML
  EXPECT_THAT(machine_.said, IsEmpty());
  request_.fallback = {"cpu"};
  EXPECT_EQ(told(take(12)), "taken: cpu");
  EXPECT_THAT(
      machine_.said,
      ElementsAre("device: cpu, since this machine has no NVIDIA driver (device.fallback)"));
}

TEST_F(TakeDeviceTest, UnqueryableDriverLeavesTheChoiceToCuda) {
  machine_.now = {.why_none = "the NVIDIA driver cannot be queried: no such file",
                  .has_driver = true};
  request_.select = "cuda:1";
  EXPECT_EQ(told(take(12)), "taken: cuda:1");
  EXPECT_THAT(machine_.said, ElementsAre("device: cuda:1, which could not be checked: the NVIDIA "
                                         "driver cannot be queried: no such file"));
  request_.select = "auto";
  EXPECT_EQ(told(take(12)), "taken: cpu");
}

TEST_F(TakeDeviceTest, OldDriverIsReported) {
  machine_.gpu(80, 80);
  machine_.now.cuda = 12020;
  machine_.now.driver = "535.104.05";
  request_.select = "cuda";
  const auto refused = take(12);
  EXPECT_EQ(told(refused),
            "device 'cuda' is not available: the NVIDIA driver 535.104.05 is too old: it supports "
            "CUDA up to 12.2, but this LibTorch needs 13.0");
  EXPECT_EQ(help(refused), "update the NVIDIA driver, or use device=cpu");
  request_.select = "auto";
  EXPECT_EQ(told(take(12)), "taken: cpu");
}

TEST_F(TakeDeviceTest, BuildWithoutCudaComputesOnTheCpu) {
  machine_.gpu(80, 80);
  machine_.cuda = "none: the worker was built without CUDA support";
  EXPECT_EQ(told(take(12)), "taken: cpu");
  EXPECT_THAT(machine_.said,
              ElementsAre("device: cpu, since this worker was built without CUDA support"));
}

TEST_F(TakeDeviceTest, HiddenGpusAreNotTaken) {
  machine_.gpu(80, 80);
  machine_.gpu(80, 20);
  machine_.variables.visible = "1";
  EXPECT_EQ(take(12)->device->index, 1);
  machine_.variables.visible = "";
  machine_.said.clear();
  EXPECT_EQ(told(take(12)), "taken: cpu");
  EXPECT_THAT(
      machine_.said,
      ElementsAre("device: cpu, since CUDA_VISIBLE_DEVICES is empty, which hides all GPUs"));
  request_.select = "cuda";
  machine_.variables.visible = "7,0";
  EXPECT_EQ(
      told(take(12)),
      "device 'cuda' is not available: CUDA_VISIBLE_DEVICES='7,0': '7' does not match any GPU "
      "of this machine, so CUDA sees no GPU");
}

TEST_F(TakeDeviceTest, LostGpusAreReported) {
  machine_.now.problems = {
      "GPU 0: it is lost: it has fallen off the bus or failed; restart the machine"};
  request_.select = "cuda";
  EXPECT_EQ(told(take(12)),
            "device 'cuda' is not available: no GPU can be used: GPU 0: it is lost: it has fallen "
            "off the bus or failed; restart the machine");
}

TEST_F(TakeDeviceTest, ExcludingAllGpusActsAsIfThereWereNone) {
  machine_.gpu(80, 80);
  request_.exclude = {"0"};
  EXPECT_EQ(told(take(12)), "taken: cpu");
  EXPECT_THAT(machine_.said, ElementsAre("device: cpu, since device.exclude leaves no GPU"));
  request_.exclude = {"GPU-ffffffff-0000"};
  machine_.said.clear();
  EXPECT_EQ(told(take(12)), "taken: cuda:0");
  EXPECT_EQ(machine_.said.front(), "device.exclude: no visible GPU is 'GPU-ffffffff-0000'");
}

TEST_F(TakeDeviceTest, GpusUnsupportedByLibTorchAreNotTaken) {
  machine_.gpu(80, 80, "NVIDIA Tesla V100").capability = 70;
  request_.select = "cuda";
  EXPECT_EQ(
      told(take(12)),
      "device 'cuda' is not available: LibTorch does not run on GPUs as old as GPU 0 (NVIDIA Tesla "
      "V100)");
  machine_.gpu(80, 20);
  EXPECT_EQ(take(12)->device->index, 1);
}

TEST_F(TakeDeviceTest, NamedGpuInUnknownCudaOrderIsLeftToCuda) {
  machine_.gpu(80, 80);
  machine_.gpu(15, 15, "NVIDIA T4");
  machine_.variables.visible = "1";
  request_.select = "cuda:0";
  EXPECT_EQ(told(take(12)), "taken: cuda:0");
  request_.select = "auto";
  EXPECT_EQ(take(12).errors().front().help,
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID to number GPUs as nvidia-smi does, or list UUIDs "
            "(`nvidia-smi -L`)");
}

TEST_F(TakeDeviceTest, MemoryFromTheRecipeNeedsNoPlan) {
  machine_.gpu(80, 20);
  request_.need = FakeMachine::gib(30);
  const NeedOf never = [](const DeviceFacts&) -> Result<DeviceNeed> {
    throw std::logic_error("asked for a plan");
  };
  EXPECT_EQ(told(take(never)),
            "no GPU has 30 GiB (device.min_gpu_memory_mb) free\n"
            "GPU 0 (NVIDIA A100 80GB): 20 GiB of 80 GiB free");
  request_.need = FakeMachine::gib(20);
  EXPECT_EQ(told(take(never)), "taken: cuda:0");
}

TEST_F(TakeDeviceTest, ErrorsOfThePlanEndTheSearch) {
  machine_.gpu(80, 80);
  request_.wait = true;
  request_.fallback = {"cpu"};
  const auto refused = take([](const DeviceFacts&) {
    return Result<DeviceNeed>(
        Diagnostic{ErrorCode::kMissingFolder, {}, "/data/root", "no folder 'x'", ""});
  });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors().front().code, ErrorCode::kMissingFolder);
}

TEST_F(TakeDeviceTest, DoesNotWaitForMoreMemoryThanExists) {
  machine_.gpu(80, 20);
  request_.wait = true;
  EXPECT_EQ(told(take(81)),
            "no GPU here has 81 GiB (the plan of train)\n"
            "GPU 0 (NVIDIA A100 80GB): 20 GiB of 80 GiB free");
  request_.fallback = {"cpu"};
  EXPECT_EQ(told(take(81)), "taken: cpu");
  EXPECT_THAT(
      machine_.said,
      ElementsAre(
          "device: cpu, since no GPU here has 81 GiB (the plan of train) (device.fallback)"));
}

TEST_F(TakeDeviceTest, MemoryReservedByTheDriverDoesNotCount) {
  machine_.gpu(80, 20).reserved = FakeMachine::gib(2);
  request_.wait = true;
  EXPECT_EQ(told(take(79)),
            "no GPU here has 79 GiB (the plan of train)\n"
            "GPU 0 (NVIDIA A100 80GB): 20 GiB of 80 GiB free");
}

TEST_F(TakeDeviceTest, NamedGpuIsUsedEvenIfAnotherRunUsesIt) {
  machine_.gpu(80, 1);
  machine_.gpu(80, 80);
  const auto other = take(0);  // has GPU 1
  machine_.said.clear();
  request_.select = "cuda:1";
  const auto taken = take(12);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->select, "cuda:1");
  EXPECT_FALSE(taken->is_only_visible);
  EXPECT_EQ(taken->device->index, 1);
  EXPECT_THAT(machine_.said,
              ElementsAre("device: another run of yours is using GPU 1 (NVIDIA A100 80GB) too"));
}

TEST_F(TakeDeviceTest, AutoAvoidsNamedGpus) {
  machine_.gpu(80, 80);
  machine_.gpu(80, 20);
  request_.select = "cuda:0";
  const auto named = take(12), shared = take(12);
  request_.select = "auto";
  EXPECT_EQ(take(12)->device->index, 1);
}

TEST_F(TakeDeviceTest, NamedGpuWithoutRoomFallsBackInOrder) {
  machine_.gpu(80, 1);
  machine_.gpu(80, 40);
  request_.select = "cuda:0";
  request_.fallback = {"gpu", "cpu"};
  {
    const auto taken = take(12);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->select, "cuda:0");
    EXPECT_EQ(taken->device->index, 1);
    EXPECT_TRUE(taken->is_only_visible);
  }
  EXPECT_EQ(told(take(41)), "taken: cpu");
  request_.fallback = {"cpu", "gpu"};
  EXPECT_EQ(told(take(12)), "taken: cpu");
  request_.fallback = {"gpu"};
  EXPECT_EQ(told(take(41)),
            "no GPU has 41 GiB (the plan of train) free\n"
            "GPU 0 (NVIDIA A100 80GB): 1.0 GiB of 80 GiB free\n"
            "GPU 1 (NVIDIA A100 80GB): 40 GiB of 80 GiB free");
}

TEST_F(TakeDeviceTest, NamedGpuWithRoomKeepsItsName) {
  machine_.gpu(80, 80);
  machine_.gpu(80, 40);
  request_.select = "cuda:1";
  request_.fallback = {"gpu"};
  const auto taken = take(12);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->select, "cuda:1");
  EXPECT_EQ(taken->device->index, 1);
  EXPECT_FALSE(taken->is_only_visible) << "then it would be cuda:0";
  EXPECT_EQ(taken->why, "the recipe specifies it");
}

TEST_F(TakeDeviceTest, MigInstancesAreTakenOneByOne) {
  for (int i = 0; i < 2; ++i) {
    DeviceFacts& instance = machine_.gpu(20, 20);
    instance.index = 0;
    instance.instance = i;
    instance.gpu_uuid = "GPU-aaaaaaaa-0000";
    instance.uuid = "MIG-" + std::to_string(i);
  }
  const auto one = take(12), other = take(12);
  EXPECT_EQ(one->device->uuid, "MIG-0");
  EXPECT_EQ(other->device->uuid, "MIG-1");
  EXPECT_THAT(told(take(12)), HasSubstr("GPU 0, MIG instance 1 (NVIDIA A100 80GB): 20 GiB of 20 "
                                        "GiB free; another run of yours uses it"));
}

TEST_F(TakeDeviceTest, PreviousDeviceIsPreferred) {
  machine_.gpu(80, 80);
  machine_.gpu(80, 20);
  request_.select = "cuda";
  request_.preferred = "GPU-bbbbbbbb-0000";
  const auto again = take(12);
  EXPECT_EQ(again->device->index, 1);
  EXPECT_EQ(again->why, "the run used it before");
  const auto other = take(12);
  EXPECT_EQ(other->device->index, 0);
  EXPECT_EQ(other->why, "the GPU that the run used before is not available");
}

TEST_F(TakeDeviceTest, SharedLockFolderIsRejected) {
  machine_.gpu(80, 80);
  std::filesystem::create_directory(locks());
  std::filesystem::permissions(locks(), std::filesystem::perms::all);
  const auto refused = take(12);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors().front().code, ErrorCode::kCannotCreate);
}

class TakeForRanksTest : public TakeDeviceTest {
 protected:
  /// The UUIDs of the GPUs that the ranks of a run take, or why there are too few.
  std::vector<std::string> taken(int ranks) {
    auto first = take(12);
    EXPECT_TRUE(first);
    auto others =
        take_for_other_ranks(request_, *first, ranks, needing(12), machine_.world(locks()));
    if (!others) {
      EXPECT_EQ(others.errors().front().pointer, "/device/count");
      return {others.errors().front().message, others.errors().front().help};
    }
    std::vector<std::string> uuids = {first->device ? first->device->uuid : first->select};
    for (const TakenDevice& other : *others) {
      EXPECT_EQ(other.select, "cuda:0") << "the only one that its worker sees";
      uuids.push_back(other.device->uuid);
    }
    return uuids;
  }
};

TEST_F(TakeForRanksTest, EachRankGetsItsOwnGpu) {
  machine_.gpu(80, 20);
  machine_.gpu(80, 70);
  machine_.gpu(80, 60);
  EXPECT_THAT(taken(3), ElementsAre("GPU-bbbbbbbb-0000", "GPU-cccccccc-0000", "GPU-aaaaaaaa-0000"));
  request_.exclude = {"1"};
  EXPECT_THAT(taken(2), ElementsAre("GPU-cccccccc-0000", "GPU-aaaaaaaa-0000"));
}

TEST_F(TakeForRanksTest, RanksTakeTheListedGpus) {
  const auto listed = [&] {
    std::vector<std::string> uuids;
    const auto gpus = gpus_for_ranks(request_, machine_.world(locks()));
    EXPECT_TRUE(gpus);
    for (const DeviceFacts& gpu : *gpus) uuids.push_back(gpu.uuid);
    return uuids;
  };
  EXPECT_THAT(listed(), IsEmpty()) << "no GPU";
  machine_.gpu(80, 20);
  machine_.gpu(80, 70);
  machine_.gpu(80, 60);
  EXPECT_EQ(listed(), taken(3));
  request_.exclude = {"1"};
  EXPECT_EQ(listed(), taken(2));
  request_.select = "cuda:0";
  EXPECT_THAT(listed(), IsEmpty()) << "all ranks share it";
  request_.select = "cpu";
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(TakeForRanksTest, TooFewGpusAreReported) {
  machine_.gpu(80, 70);
  machine_.gpu(80, 8);
  request_.wait = true;
  EXPECT_THAT(taken(2),
              ElementsAre("device.count is 2, and each rank needs its own GPU, but only 1 can be "
                          "used: no GPU has 12 GiB (the plan of train) free",
                          "set device.count: 1, or device.select: cpu"));
  request_.exclude = {"1"};
  EXPECT_THAT(
      taken(2),
      ElementsAre("device.count is 2, and each rank needs its own GPU, but only 1 can be used",
                  "set device.count: 1, or device.select: cpu"));
  EXPECT_EQ(machine_.time.time_since_epoch(), 0s) << "it may not wait for another run's GPU";
}

TEST_F(TakeForRanksTest, RanksShareAGpuThatTheRecipeNames) {
  machine_.gpu(80, 70);
  machine_.gpu(80, 70);
  request_.select = "cuda:1";
  EXPECT_THAT(taken(2), ElementsAre("GPU-bbbbbbbb-0000"));
  request_.need = std::int64_t{1} << 30;  // so the named GPU is checked
  EXPECT_THAT(taken(2), ElementsAre("GPU-bbbbbbbb-0000"));
}

TEST_F(TakeForRanksTest, RanksOnTheCpuNeedNoGpu) { EXPECT_THAT(taken(4), ElementsAre("cpu")); }

}  // namespace
}  // namespace runner
