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

TEST_F(HeatMapTest, MiddleOfALongNameIsOmitted) {
  map_.name(1, "a name that has very many letters in it");
  EXPECT_THAT(drawing_.svg(), HasSubstr(">a name that …tters in it</text>"));
}

TEST_F(HeatMapTest, RowsAndColumnsMayHaveDifferentNames) {
  map_.row_name(0, "row");
  map_.column_name(1, "column");
  const std::string svg = drawing_.svg();
  EXPECT_THAT(svg, HasSubstr("x=\"42\" y=\"34\" text-anchor=\"end\">row</text>"));
  EXPECT_THAT(svg, HasSubstr("rotate(-45 113,104)\">column</text>"));
}

TEST(HeatMap, LongerNamesNeedMoreRoom) {
  const std::vector<std::string> brief = {"a", "cat"}, mixed = {"a", "cat", "a dog with long ears"},
                                 endless = {std::string(100, 'x')};
  EXPECT_LT(HeatMap::room_left(brief), 40);
  EXPECT_LT(HeatMap::room_left(brief), HeatMap::room_left(mixed));
  EXPECT_LT(HeatMap::room_below(brief), HeatMap::room_below(mixed));
  EXPECT_LT(HeatMap::room_left(endless), 190) << "it is shortened";
  EXPECT_LT(HeatMap::room_below(endless), 160);
}

TEST(HeatScale, LabelsBothEndsAndTheQuantity) {
  Drawing drawing(200, 200, "a", "b");
  draw_heat_scale(drawing, {10, 10}, 100, {"0.1", "0.9", "cosine"});
  for (const char* text : {">0.1</text>", ">0.9</text>", ">cosine</text>"})
    EXPECT_THAT(drawing.svg(), HasSubstr(text));
}

}  // namespace
}  // namespace runner
