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
DeviceWish wish_in(const std::string& device) {
  Sources sources;
  const auto recipe =
      fake_recipe("device: " + device + "\ndata: {kind: data.one}\n", fake_schemas(), sources);
  if (recipe) return device_wish(recipe->resolved);
  ADD_FAILURE() << recipe.errors().front().message;
  return {};
}

TEST(DeviceWish, DeviceAloneKeepsTheDefaults) {
  const DeviceWish wish = wish_in("{select: cuda}");
  EXPECT_EQ(wish.select, "cuda");
  EXPECT_TRUE(wish.is_gpu());
  EXPECT_EQ(wish.need, std::nullopt);
  EXPECT_FALSE(wish.wait);
  EXPECT_EQ(wish.timeout, 1h);
  EXPECT_EQ(wish.interval, 30s);
  EXPECT_THAT(wish.exclude, IsEmpty());
  EXPECT_THAT(wish.fallback, IsEmpty());
}

TEST(DeviceWish, ReadsEveryKeyOfTheRecipe) {
  const DeviceWish wish = wish_in(
      "{select: 'cuda:12', exclude: [3, GPU-0b9d2a44-1], min_gpu_memory_mb: 6000, wait_for_gpu: "
      "true, wait_timeout_minutes: 1.5, check_interval_seconds: 0.5, fallback: [gpu, cpu]}");
  EXPECT_EQ(wish.index(), 12);
  EXPECT_THAT(wish.exclude, ElementsAre("3", "GPU-0b9d2a44-1"));
  EXPECT_EQ(wish.need, std::int64_t{6000} << 20) << "nvidia-smi's megabytes are of 2^20 bytes";
  EXPECT_TRUE(wish.wait);
  EXPECT_EQ(wish.timeout, 90s);
  EXPECT_EQ(wish.interval, 500ms);
  EXPECT_THAT(wish.fallback, ElementsAre("gpu", "cpu"));
}

TEST(DeviceWish, OnlyANumberedGpuHasAnIndex) {
  EXPECT_EQ(wish_in("{select: cpu}").index(), std::nullopt);
  EXPECT_EQ(wish_in("{select: auto}").index(), std::nullopt);
  EXPECT_EQ(wish_in("{select: cuda}").index(), std::nullopt);
  EXPECT_EQ(wish_in("{select: 'cuda:0'}").index(), 0);
  EXPECT_FALSE(wish_in("{select: cpu}").is_gpu());
  EXPECT_TRUE(wish_in("{select: auto}").is_gpu());
}

TEST(DeviceWish, FallsBackOnlyToNamedDevices) {
  const DeviceWish wish = wish_in("{select: cuda, fallback: [cpu]}");
  EXPECT_TRUE(wish.may_fall_back_to("cpu"));
  EXPECT_FALSE(wish.may_fall_back_to("gpu"));
}

}  // namespace
}  // namespace runner
