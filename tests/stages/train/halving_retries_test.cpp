#include "stages/train/halving_retries.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

/// Returns successive attempts until the rule gives up, or `most` of them: "64", or "cuda:0@128" if
/// the device changes.
std::string sequence(const HalvingRetries::Options& options, std::string device = "cuda:3",
                     int most = 12) {
  HalvingRetries retries(options);
  std::string text;
  for (int i = 0; i < most; ++i) {
    const auto attempt = retries.after(device);
    if (!attempt) return text + "FAIL";
    text += (attempt->device == device ? "" : attempt->device + "@") +
            std::to_string(attempt->batch_size) + " ";
    device = attempt->device;
  }
  return text;
}

// The expected sequences were recorded from the published handler.
TEST(HalvingRetries, DefaultsAllowTwoRetries) { EXPECT_EQ(sequence({128, 4, 3, 4}), "64 32 FAIL"); }
TEST(HalvingRetries, LimitOfFiveAllowsFourRetries) {
  EXPECT_EQ(sequence({128, 4, 5, 4}), "64 32 16 8 FAIL");
}
TEST(HalvingRetries, LimitOfSevenReachesTheNextGpu) {
  EXPECT_EQ(sequence({128, 4, 7, 4}), "64 32 16 8 4 cuda:0@128 FAIL");
}
TEST(HalvingRetries, SeveralGpusAreCycledAndTheCpuIsNeverReached) {
  EXPECT_EQ(sequence({32, 4, 12, 4}), "16 8 4 cuda:0@32 16 8 4 cuda:1@32 16 8 4 FAIL");
}
TEST(HalvingRetries, CpuFollowsASingleGpu) {
  EXPECT_EQ(sequence({32, 4, 12, 1}, "cuda:0", 4), "16 8 4 cpu@32 ");
}
TEST(HalvingRetries, RetriesOnOtherDevicesCount) {
  HalvingRetries retries({32, 4, 3, 1}, 1);
  EXPECT_EQ(retries.after("cuda:0"), (HalvingRetries::Attempt{16, "cuda:0"}));
  EXPECT_FALSE(retries.after("cuda:0"));
  EXPECT_EQ(retries.count(), 3);
}

}  // namespace
}  // namespace stages
