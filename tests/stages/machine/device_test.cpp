#include "stages/machine/device.h"

#include <gtest/gtest.h>

#include "tests/support/refused.h"

namespace stages {
namespace {

TEST(Device, CpuIsAlwaysAvailable) {
  EXPECT_EQ(choose_device("cpu", {0, "no driver"})->str(), "cpu");
}

TEST(Device, CudaIsTheFirstGpu) {
  EXPECT_EQ(choose_device("cuda", {2, ""})->str(), "cuda:0");
  EXPECT_EQ(choose_device("cuda:1", {2, ""})->str(), "cuda:1");
}

TEST(Device, MissingGpuIsExplained) {
  EXPECT_REFUSED(choose_device("cuda", {0, "this machine has no NVIDIA driver"}),
                 kDeviceUnavailable, "/device/select", "'cuda'", "no NVIDIA driver");
  EXPECT_REFUSED(choose_device("cuda:2", {2, ""}), kDeviceUnavailable, "/device/select", "'cuda:2'",
                 "cuda:0 to cuda:1");
  EXPECT_REFUSED(choose_device("cuda:1", {1, ""}), kDeviceUnavailable, "/device/select", "'cuda:1'",
                 "only cuda:0");
}

TEST(Device, UnknownNamesAreRejected) {
  for (const char* text :
       {"", "auto", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:999999999999", "mps"}) {
    EXPECT_REFUSED(choose_device(text, {2, ""}), kDeviceUnavailable, "/device/select", text);
  }
}

}  // namespace
}  // namespace stages
