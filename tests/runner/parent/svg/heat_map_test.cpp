#include "runner/parent/svg/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

class HeatMapTest : public testing::Test {
 protected:
  Drawing drawing_{200, 200, "Map", "Cells"};
  const HeatMap map_{drawing_, {50, 10}, 40, 2};
};

TEST_F(HeatMapTest, CellsArePlacedByRowAndColumn) {
  map_.cell(1, 0, 0.5, "tip <1>", "12");
  EXPECT_THAT(drawing_.svg(), HasSubstr("x=\"50\" y=\"50\" width=\"40\" height=\"40\""));
  EXPECT_THAT(drawing_.svg(), HasSubstr("tip &lt;1&gt;"));
  EXPECT_THAT(drawing_.svg(), HasSubstr(">12<"));
}

TEST_F(HeatMapTest, WeakCellStaysVisibleAndStrongOneHasInverseText) {
  map_.cell(0, 0, -1, "", "a");
  EXPECT_THAT(drawing_.svg(), HasSubstr("0.06"));
  EXPECT_THAT(drawing_.svg(), Not(HasSubstr("small inverse\"")));
  map_.cell(0, 1, 2, "", "b");
  EXPECT_THAT(drawing_.svg(), HasSubstr("small inverse\""));
}

TEST_F(HeatMapTest, LongNamesAreShortened) {
  map_.name(1, "a name that has more than 24 characters");
  EXPECT_THAT(drawing_.svg(), HasSubstr("a name that has more th…"));
}

}  // namespace
}  // namespace runner
