#include "stages/text/class_text.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

const std::string kComposed = "caf\xc3\xa9", kDecomposed = "cafe\xcc\x81", kNoText = "caf\xe9";

TEST(SameName, AccentsMatchInBothUnicodeForms) {
  const std::vector<std::string> names = {"bar", kDecomposed};
  EXPECT_EQ(place_of_name(kComposed, names), 1u);
  EXPECT_EQ(place_of_name(kDecomposed, names), 1u);
  EXPECT_EQ(place_of_name("cafe", names), std::nullopt);
}

TEST(SameName, ExactNameComesFirst) {
  EXPECT_EQ(place_of_name(kDecomposed, std::vector<std::string>{kComposed, kDecomposed}), 1u);
}

TEST(SameName, NonUtf8NameMatchesOnlyItself) {
  EXPECT_EQ(compared_name(kNoText), kNoText);
  EXPECT_EQ(place_of_name(kNoText, std::vector<std::string>{kComposed, kNoText}), 1u);
  EXPECT_EQ(place_of_name(kComposed, std::vector<std::string>{kNoText}), std::nullopt);
}

}  // namespace
}  // namespace stages
