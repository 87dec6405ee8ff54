#include "stages/model/clip_vision.h"

#include <gtest/gtest.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

DatasetDescription pair_of_grades() {
  return {.size = 8, .classes = {"mild", "severe"}, .pair_of = 5};
}

TEST(FittingClasses, ClassPairHasOneLogitForAnyNumberOfClasses) {
  EXPECT_EQ(fitting_classes(pair_of_grades(), std::nullopt, "/model"), 1);
  EXPECT_EQ(fitting_classes(pair_of_grades(), 5, "/model"), 1);
  const DatasetDescription two{.size = 8, .classes = {"mild", "severe"}};
  EXPECT_EQ(fitting_classes(two, std::nullopt, "/model"), 2);
}

TEST(FittingClasses, ClassCountMatchesTheWholeDataset) {
  EXPECT_REFUSED(fitting_classes(pair_of_grades(), 2, "/model"), kLabelOutOfRange,
                 "/model/num_classes", "5 classes");
}

}  // namespace
}  // namespace stages
