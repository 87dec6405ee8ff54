#include "stages/train/throughput.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(Throughput, IsUnknownBeforeASpanHasPassed) {
  Throughput throughput;
  EXPECT_EQ(throughput.per_second(), 0);
  throughput.add(5.0, 0);
  EXPECT_EQ(throughput.per_second(), 0);
  throughput.add(5.0, 32);
  EXPECT_EQ(throughput.per_second(), 0);
}

TEST(Throughput, CountsWhatWasDoneSinceTheFirstMark) {
  Throughput throughput;
  throughput.add(5.0, 100);  // done before: not counted
  throughput.add(6.0, 32);
  throughput.add(7.0, 16);
  EXPECT_DOUBLE_EQ(throughput.per_second(), 24.0);
}

TEST(Throughput, ForgetsWhatIsLongPast) {
  Throughput throughput;
  for (int second = 0; second <= 100; ++second) throughput.add(second, second < 50 ? 1 : 10);
  EXPECT_DOUBLE_EQ(throughput.per_second(), 10.0);
}

}  // namespace
}  // namespace stages
