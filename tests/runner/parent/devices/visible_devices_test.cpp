#include "runner/parent/devices/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_devices.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class VisibleDevicesTest : public testing::Test {
 protected:
  VisibleDevicesTest() {
    for (int i = 0; i < 4; ++i) machine_.gpu(80, 80);
  }

  /// The indices of the devices that CUDA would see.
  std::vector<int> seen(const std::string& list) {
    machine_.variables.visible = list;
    return seen();
  }
  std::vector<int> seen() {
    const auto visible = visible_devices(machine_.now, machine_.variables);
    if (!visible) {
      remark_ = visible.errors().front().message;
      return {-1};
    }
    std::vector<int> indices;
    for (const DeviceFacts& device : visible->devices) indices.push_back(device.index);
    remark_ = visible->remark;
    in_cuda_order_ = visible->in_cuda_order;
    return indices;
  }

  FakeMachine machine_;
  std::string remark_;
  bool in_cuda_order_ = false;
};

TEST_F(VisibleDevicesTest, AllAreVisibleWithoutTheVariable) {
  EXPECT_THAT(seen(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(in_cuda_order_);
}

TEST_F(VisibleDevicesTest, IndicesKeepTheirOrder) {
  EXPECT_THAT(seen("2,0"), ElementsAre(2, 0));
  EXPECT_THAT(seen(" 3 , 1 "), ElementsAre(3, 1));
  EXPECT_EQ(remark_, "");
}

TEST_F(VisibleDevicesTest, UuidsMayBeAbbreviated) {
  EXPECT_THAT(seen("GPU-cccc,GPU-aaaaaaaa-0000"), ElementsAre(2, 0));
  EXPECT_THAT(seen("GPU-"), IsEmpty());  // matches all
  EXPECT_EQ(remark_,
            "CUDA_VISIBLE_DEVICES='GPU-': 'GPU-' does not match any GPU of this machine, so CUDA "
            "sees no GPU");
}

TEST_F(VisibleDevicesTest, DevicesAfterAnInvalidEntryAreHidden) {
  EXPECT_THAT(seen("1,9,2"), ElementsAre(1));
  EXPECT_EQ(
      remark_,
      "CUDA_VISIBLE_DEVICES='1,9,2': '9' does not match any GPU of this machine, so CUDA sees "
      "only the GPUs before it");
  EXPECT_THAT(seen("1,-1,2"), ElementsAre(1));
  EXPECT_THAT(seen("0,,1"), ElementsAre(0));
  EXPECT_EQ(remark_,
            "CUDA_VISIBLE_DEVICES='0,,1': an entry is empty, so CUDA sees only the GPUs before it");
  EXPECT_THAT(seen("2,2"), ElementsAre(2));
  EXPECT_EQ(remark_,
            "CUDA_VISIBLE_DEVICES='2,2': '2' lists a GPU for the second time, so CUDA sees only "
            "the GPUs before it");
}

TEST_F(VisibleDevicesTest, InvalidListHidesAll) {
  for (const char* list :
       {"all", "cuda:0", "GPU-12345678", "0x1", "99999999999999999999", "MIG-1", "\x1b[2J"})
    EXPECT_THAT(seen(list), IsEmpty()) << list;
  EXPECT_EQ(remark_,
            "CUDA_VISIBLE_DEVICES=' [2J': ' [2J' does not match any GPU of this machine, so CUDA "
            "sees no GPU");
}

TEST_F(VisibleDevicesTest, EmptyListHidesAll) {
  EXPECT_THAT(seen(""), IsEmpty());
  EXPECT_EQ(remark_, "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs");
  EXPECT_THAT(seen("  "), IsEmpty());
}

TEST_F(VisibleDevicesTest, LostGpuKeepsItsNumber) {
  machine_.now.devices.erase(machine_.now.devices.begin() + 1);
  EXPECT_THAT(seen("2"), ElementsAre(2));
  EXPECT_THAT(seen("1,2"), IsEmpty());
}

TEST_F(VisibleDevicesTest, OnlyCudaKnowsTheOrderOfDifferentGpus) {
  machine_.now.devices[2].name = "NVIDIA T4";
  EXPECT_THAT(seen(), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(in_cuda_order_);
  EXPECT_THAT(seen("1"), ElementsAre(-1));
  EXPECT_EQ(remark_,
            "CUDA_VISIBLE_DEVICES='1' numbers GPUs starting with the fastest, an order known only "
            "to CUDA if there are several models");
  EXPECT_THAT(seen("GPU-bbbb"), ElementsAre(1));
  EXPECT_TRUE(in_cuda_order_);
  EXPECT_THAT(seen("3,2,1,0"), ElementsAre(3, 2, 1, 0));  // in any order, all are visible
  EXPECT_FALSE(in_cuda_order_);
  machine_.variables.order = "PCI_BUS_ID";
  EXPECT_THAT(seen("1"), ElementsAre(1));
  EXPECT_TRUE(in_cuda_order_);
}

TEST_F(VisibleDevicesTest, OnlyCudaKnowsTheOrderOfGpusWithDifferentMemory) {
  machine_.now.devices[2].total = FakeMachine::gib(40);  // the other A100
  EXPECT_THAT(seen("1"), ElementsAre(-1));
}

TEST_F(VisibleDevicesTest, InstancesAreNamedByTheirOwnUuids) {
  DeviceFacts instance = machine_.now.devices[3];
  machine_.now.devices[3].instance = 0;
  machine_.now.devices[3].uuid = "MIG-11111111-0000";
  instance.instance = 1;
  instance.uuid = "MIG-22222222-0000";
  machine_.now.devices.push_back(instance);
  EXPECT_THAT(seen(), ElementsAre(0, 1, 2, 3, 3));
  EXPECT_FALSE(in_cuda_order_) << "CUDA counts GPUs, and not their instances";
  EXPECT_THAT(seen("MIG-2222"), ElementsAre(3));
  EXPECT_THAT(seen("MIG-2222,MIG-1111"), ElementsAre(3, 3));
  machine_.variables.visible = "3";
  EXPECT_EQ(visible_devices(machine_.now, machine_.variables)->devices.at(0).uuid,
            "MIG-11111111-0000");
  EXPECT_THAT(seen("GPU-dddd"), ElementsAre(3));
}

}  // namespace
}  // namespace runner
