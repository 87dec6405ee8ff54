#include "runner/parent/config/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> overruled(const std::vector<std::string>& words) {
  Sources sources;
  std::vector<Override> overrides;
  for (const std::string& word : words)
    overrides.push_back(*parse_override(sources.add("override", word)));
  std::vector<std::string> lines;
  for (const Diagnostic& one : overruled_overrides(overrides)) {
    EXPECT_EQ(one.severity, Severity::kWarning);
    lines.push_back(one.message);
  }
  return lines;
}

TEST(Overruled, ValueThatALaterOneReplacesIsSaidToHaveNoEffect) {
  EXPECT_THAT(overruled({"train.epochs=5", "seed=1", "train.epochs=6"}),
              ElementsAre("'train.epochs=5' has no effect: 'train.epochs=6', which comes after it, "
                          "sets 'train.epochs'"));
}

TEST(Overruled, SameValueTwiceAndMappingsThatMergeAreNotMentioned) {
  EXPECT_THAT(
      overruled({"train.epochs=5", "train.epochs=5", "a={x: 1}", "a={y: 2}", "b.c=1", "b.d=2"}),
      IsEmpty());
}

}  // namespace
}  // namespace runner
