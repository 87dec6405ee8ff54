#include "runner/shared/text/percent_encoding.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(PercentEncoded, KeepsUnreservedCharacters) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded("a b&c=d/\xC3\xA4"), "a%20b%26c%3Dd%2F%C3%A4");
}

TEST(PercentEncoded, KeepsSlashesInAPathOnRequest) {
  EXPECT_EQ(percent_encoded("org/a b", true), "org/a%20b");
}

}  // namespace
}  // namespace runner
