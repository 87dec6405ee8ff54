#include "runner/parent/record/event_file.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(EventFile, ChecksumMatchesRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AA);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43);
}

}  // namespace
}  // namespace runner
