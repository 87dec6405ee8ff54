#include "runner/parent/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> told(const std::vector<std::string>& words) {
  std::vector<std::string> lines;
  for (const Diagnostic& one : check_texts(words)) {
    EXPECT_EQ(one.code, ErrorCode::kUsage);
    EXPECT_FALSE(one.help.empty());
    lines.push_back(one.message);
  }
  return lines;
}

TEST(TextCheck, EmptyArgumentIsRejected) {
  EXPECT_THAT(told({"predict", "run", "--out", ""}),
              ElementsAre("the argument after '--out' is empty"));
  EXPECT_THAT(told({"predict", "", "--out=", "x"}),
              ElementsAre("the argument is empty", "'--out=' is empty"));
}

TEST(TextCheck, EmptyOverrideValueIsAccepted) {
  EXPECT_THAT(told({"run", "r.yaml", "notice=", "--", "--steps=3", "~x", "a==", "--a=b="}),
              IsEmpty());
}

TEST(TextCheck, InvalidUtf8IsShownAsBytes) {
  EXPECT_THAT(told({"run", "caf\xe8"}), ElementsAre("an argument is not UTF-8 text: 'caf\\xe8'"));
}

}  // namespace
}  // namespace runner
