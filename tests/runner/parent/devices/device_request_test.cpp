#include "runner/parent/devices/choose_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_schemas.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

/// The device request of a recipe with this `device`.
DeviceRequest request_in(const std::string& device) {
  Sources sources;
  const auto recipe =
      fake_recipe("device: " + device + "\ndata: {kind: data.one}\n", fake_schemas(), sources);
  if (recipe) return device_request(recipe->resolved);
  ADD_FAILURE() << recipe.errors().front().message;
  return {};
}

TEST(DeviceRequest, DeviceAloneKeepsTheDefaults) {
  const DeviceRequest request = request_in("{select: cuda}");
  EXPECT_EQ(request.select, "cuda");
  EXPECT_TRUE(request.is_gpu());
  EXPECT_EQ(request.need, std::nullopt);
  EXPECT_FALSE(request.wait);
  EXPECT_EQ(request.timeout, 1h);
  EXPECT_EQ(request.interval, 30s);
  EXPECT_THAT(request.exclude, IsEmpty());
  EXPECT_THAT(request.fallback, IsEmpty());
}

TEST(DeviceRequest, ReadsEveryKeyOfTheRecipe) {
  const DeviceRequest request = request_in(
      "{select: 'cuda:12', exclude: [3, GPU-0b9d2a44-1], min_gpu_memory_mb: 6000, wait_for_gpu: "
      "true, wait_timeout_minutes: 1.5, check_interval_seconds: 0.5, fallback: [gpu, cpu]}");
  EXPECT_EQ(request.index(), 12);
  EXPECT_THAT(request.exclude, ElementsAre("3", "GPU-0b9d2a44-1"));
  EXPECT_EQ(request.need, std::int64_t{6000} << 20) << "nvidia-smi's megabytes are 2^20 bytes";
  EXPECT_TRUE(request.wait);
  EXPECT_EQ(request.timeout, 90s);
  EXPECT_EQ(request.interval, 500ms);
  EXPECT_THAT(request.fallback, ElementsAre("gpu", "cpu"));
}

TEST(DeviceRequest, OnlyANumberedGpuHasAnIndex) {
  EXPECT_EQ(request_in("{select: cpu}").index(), std::nullopt);
  EXPECT_EQ(request_in("{select: auto}").index(), std::nullopt);
  EXPECT_EQ(request_in("{select: cuda}").index(), std::nullopt);
  EXPECT_EQ(request_in("{select: 'cuda:0'}").index(), 0);
  EXPECT_FALSE(request_in("{select: cpu}").is_gpu());
  EXPECT_TRUE(request_in("{select: auto}").is_gpu());
}

TEST(DeviceRequest, FallsBackOnlyToSpecifiedDevices) {
  const DeviceRequest request = request_in("{select: cuda, fallback: [cpu]}");
  EXPECT_TRUE(request.may_fall_back_to("cpu"));
  EXPECT_FALSE(request.may_fall_back_to("gpu"));
}

}  // namespace
}  // namespace runner
