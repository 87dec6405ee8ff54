#include "runner/parent/devices/choose_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_devices.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ChooseDeviceTest : public testing::Test {
 protected:
  /// The indices of the devices that match `request_`, best first.
  std::vector<int> order() {
    const auto found = candidates(request_, {.devices = machine_.now.devices});
    if (!found) {
      error_ = found.errors().front().message;
      return {-1};
    }
    std::vector<int> indices;
    for (const DeviceFacts& device : ranked(*found)) indices.push_back(device.index);
    return indices;
  }

  FakeMachine machine_;
  DeviceRequest request_{.select = "auto"};
  std::string error_;
};

TEST_F(ChooseDeviceTest, OrdersByFreeMemoryThenUseThenIndex) {
  for (const int free : {10, 40, 40, 70, 40}) machine_.gpu(80, free);
  machine_.now.devices[1].utilization = 90;
  EXPECT_THAT(order(), ElementsAre(3, 2, 4, 1, 0));
}

TEST_F(ChooseDeviceTest, GpuWithUnknownMemoryComesLast) {
  machine_.gpu(80, 80);
  machine_.gpu(80, 1);
  machine_.now.devices[0].free.reset();
  EXPECT_THAT(order(), ElementsAre(1, 0));
}

TEST_F(ChooseDeviceTest, ExcludesByIndexOrUuid) {
  for (int i = 0; i < 4; ++i) machine_.gpu(80, 80);
  request_.exclude = {"0", "GPU-cccccccc-0000", "9"};
  EXPECT_THAT(order(), ElementsAre(1, 3));
  EXPECT_THAT(idle_exclusions(request_, {.devices = machine_.now.devices}),
              ElementsAre("device.exclude: no visible GPU is '9'"));
  request_.exclude = {"0", "1", "2", "3"};
  EXPECT_THAT(order(), IsEmpty());
}

TEST_F(ChooseDeviceTest, NamedGpuIsTheOnlyCandidateWithoutFallback) {
  for (const int free : {10, 70, 40}) machine_.gpu(80, free);
  request_.select = "cuda:2";
  EXPECT_THAT(order(), ElementsAre(2));
  request_.fallback = {"cpu", "gpu"};  // the CPU comes first
  EXPECT_THAT(order(), ElementsAre(2));
  request_.fallback = {"gpu", "cpu"};
  EXPECT_THAT(order(), ElementsAre(2, 1, 0));
  request_.select = "cuda:3";
  EXPECT_THAT(order(), ElementsAre(1, 2, 0));
  request_.fallback.clear();
  EXPECT_THAT(order(), ElementsAre(-1));
  EXPECT_EQ(error_, "device 'cuda:3' is not available: there are cuda:0 to cuda:2");
}

TEST_F(ChooseDeviceTest, NamedGpuInUnknownCudaOrderIsRejected) {
  machine_.gpu(80, 80);
  machine_.gpu(15, 15, "NVIDIA T4");
  request_.select = "cuda:1";
  const auto found =
      candidates(request_, {.devices = machine_.now.devices, .in_cuda_order = false});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.errors().front().message,
            "device 'cuda:1' is not available: CUDA numbers GPUs starting with the fastest, in an "
            "order known only to CUDA");
  EXPECT_EQ(
      found.errors().front().help,
      "set CUDA_DEVICE_ORDER=PCI_BUS_ID to number GPUs as nvidia-smi does, or write device=auto");
}

TEST_F(ChooseDeviceTest, StateShowsMemoryUseAndHolders) {
  DeviceFacts& device = machine_.gpu(80, 12);
  device.utilization = 97;
  device.holders = {{4711, FakeMachine::gib(60)}, {12, std::nullopt}};
  EXPECT_EQ(state_text(device),
            "12 GiB of 80 GiB free, 97% in use, process 4711 (60 GiB), process 12");
  EXPECT_EQ(state_text({}), "unknown memory free");
}

TEST_F(ChooseDeviceTest, RefusalShowsTheStateOfEachGpu) {
  machine_.gpu(80, 12);
  machine_.gpu(80, 40);
  const DeviceNeed need{FakeMachine::gib(30), "the plan of train"};
  const std::vector<std::string> taken = {"GPU-bbbbbbbb-0000"};
  Diagnostic error = no_room(machine_.now.devices, need, taken, false);
  EXPECT_EQ(error.message, "every GPU with enough memory is in use");
  EXPECT_EQ(error.help,
            "wait for one: device.wait_for_gpu=true; or allow the CPU: device.fallback=[cpu]");
  ASSERT_EQ(error.notes.size(), 2U);
  EXPECT_EQ(error.notes[0].message, "GPU 0 (NVIDIA A100 80GB): 12 GiB of 80 GiB free");
  EXPECT_EQ(error.notes[1].message,
            "GPU 1 (NVIDIA A100 80GB): 40 GiB of 80 GiB free; another run of yours uses it");
  error =
      no_room(machine_.now.devices, {FakeMachine::gib(50), "device.min_gpu_memory_mb"}, {}, false);
  EXPECT_EQ(error.message, "no GPU has 50 GiB (device.min_gpu_memory_mb) free");
  error = no_room(machine_.now.devices, {FakeMachine::gib(81), "the plan of train"}, {}, false);
  EXPECT_EQ(error.message, "no GPU here has 81 GiB (the plan of train)");
}

}  // namespace
}  // namespace runner
