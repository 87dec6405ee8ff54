#include "runner/shared/stage/family.h"

#include <gtest/gtest.h>

#include "runner/parent/schema/schema.h"

namespace runner {
namespace {

TEST(Family, IsTheFirstWordOfAKind) {
  EXPECT_EQ(family_of("train.supervised"), Family::kTrain);
  EXPECT_EQ(name_in_family("train.supervised"), "supervised");
}

TEST(Family, UnknownWordIsNotAFamily) {
  for (const char* kind : {"", "train", ".train", "training.loop", "Train.loop"}) {
    EXPECT_FALSE(family_of(kind)) << kind;
    EXPECT_EQ(name_in_family(kind), kind);
  }
}

TEST(Family, EveryShippedKindHasAFamily) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  for (const Kind& kind : schemas->kinds()) EXPECT_TRUE(family_of(kind.name)) << kind.name;
}

}  // namespace
}  // namespace runner
