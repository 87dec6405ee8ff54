#include "stages/machine/device.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

std::string chosen(std::string_view text, const Gpus& gpus) {
  const auto device = choose_device(text, gpus);
  if (device) return device->str();
  const auto& d = device.errors().at(0);
  return name(d.code) + " " + d.pointer + ": " + d.message;
}

TEST(Device, CpuIsAlwaysThere) { EXPECT_EQ(chosen("cpu", {0, "no driver"}), "cpu"); }

TEST(Device, CudaIsTheFirstGpu) {
  EXPECT_EQ(chosen("cuda", {2, ""}), "cuda:0");
  EXPECT_EQ(chosen("cuda:1", {2, ""}), "cuda:1");
}

TEST(Device, MissingGpuSaysWhy) {
  EXPECT_EQ(
      chosen("cuda", {0, "this machine has no NVIDIA driver"}),
      "E0703 /device/select: device 'cuda' is not available: this machine has no NVIDIA driver");
  EXPECT_EQ(chosen("cuda:2", {2, ""}),
            "E0703 /device/select: device 'cuda:2' is not available: there are cuda:0 to cuda:1");
  EXPECT_EQ(chosen("cuda:1", {1, ""}),
            "E0703 /device/select: device 'cuda:1' is not available: there is only cuda:0");
}

TEST(Device, AnythingElseIsRefused) {
  for (const char* text :
       {"", "auto", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:999999999999", "mps"}) {
    EXPECT_EQ(chosen(text, {2, ""}), "E0703 /device/select: device '" + std::string(text) +
                                         "' is not available: this worker does not know it");
  }
}

}  // namespace
}  // namespace stages
