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

TEST(Overruled, RepeatedKeyCausesNoWarning) {
  EXPECT_THAT(overruled({"train.epochs=5", "seed=1", "train.epochs=6", "train.epochs=7"}),
              IsEmpty());
  EXPECT_THAT(
      overruled({"train.epochs=5", "train.epochs=5", "a={x: 1}", "a={y: 2}", "b.c=1", "b.d=2"}),
      IsEmpty());
}

TEST(Overruled, ValueReplacedThroughAnAliasIsReported) {
  Sources sources;
  std::vector<Override> overrides;
  for (const char* word : {"train.batch_size=5", "batch=6"})
    overrides.push_back(*parse_override(sources.add("override", word)));
  overrides[1].alias = "batch";
  overrides[1].key = "train.batch_size";
  const Diagnostics found = overruled_overrides(overrides);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message,
            "'train.batch_size=5' has no effect: 'batch=6', which comes after it, sets "
            "'train.batch_size'");
  std::swap(overrides[0], overrides[1]);
  EXPECT_EQ(overruled_overrides(overrides).size(), 1u);
  overrides[1].value = overrides[0].value;
  EXPECT_THAT(overruled_overrides(overrides), IsEmpty());
}

TEST(Overruled, ValueInsideAReplacedOrRemovedMappingIsReported) {
  EXPECT_THAT(overruled({"data.split.seed=5", "data.split=null", "data.split.test=1"}),
              ElementsAre("'data.split.seed=5' has no effect: 'data.split=null', which comes after "
                          "it, sets 'data.split'"));
  EXPECT_THAT(
      overruled({"data.split.seed=5", "~data"}),
      ElementsAre(
          "'data.split.seed=5' has no effect: '~data', which comes after it, removes 'data'"));
  EXPECT_THAT(overruled({"seed=5", "~seed"}),
              ElementsAre("'seed=5' has no effect: '~seed', which comes after it, removes 'seed'"));
  EXPECT_THAT(
      overruled({"data.split=null", "data.split.seed=5", "data.splits=2", "data.split={seed: 6}"}),
      IsEmpty());
}

}  // namespace
}  // namespace runner
