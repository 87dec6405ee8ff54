#include "stages/data/label_columns.h"

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

LabelColumns one_column() { return {.column = "tags", .separator = "|"}; }

TEST(LabelRows, LabelsOfOneColumnAreNumberedInSortedOrder) {
  LabelRows rows(one_column());
  EXPECT_EQ(rows.add({"red | blue"}), "");
  EXPECT_EQ(rows.add({"amber"}), "");
  EXPECT_EQ(rows.add({"blue|red"}), "");
  ImageList list;
  const auto labeled = rows.number(list);
  EXPECT_TRUE(list.has_label_sets);
  EXPECT_THAT(list.classes, ElementsAre("amber", "blue", "red"));
  EXPECT_THAT(list.label_sets, ElementsAre(ElementsAre(1, 2), ElementsAre(0)));
  EXPECT_EQ(labeled[0].set, labeled[2].set);
}

TEST(LabelRows, ImageIsSplitByItsRarestLabel) {
  LabelRows rows({.column = "tags", .separator = ";", .may_be_empty = true});
  for (const char* tags : {"a;b", "a", "a;b", "b;c", ""}) EXPECT_EQ(rows.add({tags}), "");
  ImageList list;
  const auto labeled = rows.number(list);
  std::vector<std::int64_t> rarest;
  for (const auto& one : labeled) rarest.push_back(one.rarest);
  EXPECT_THAT(rarest, ElementsAre(0, 0, 0, 2, 0)) << "without labels, the most frequent one";
}

TEST(LabelRows, EmptyFieldIsAnErrorUnlessTheRecipeAllowsNoLabels) {
  LabelRows strict(one_column());
  EXPECT_THAT(strict.add({" "}), HasSubstr("labels.empty: none"));
  LabelRows lenient({.column = "tags", .separator = "|", .may_be_empty = true});
  EXPECT_EQ(lenient.add({" "}), "");
  ImageList list;
  EXPECT_THAT(lenient.number(list), IsEmpty()) << "without any label";
}

TEST(LabelRows, EmptyOrDuplicateLabelIsAnError) {
  LabelRows rows(one_column());
  EXPECT_THAT(rows.add({"red||blue"}), HasSubstr("an empty one"));
  EXPECT_THAT(rows.add({"red|"}), HasSubstr("an empty one"));
  EXPECT_THAT(rows.add({"red|blue|red"}), HasSubstr("'red' occurs twice"));
}

TEST(LabelRows, MarksAreOneOrZeroInTheOrderOfTheColumns) {
  LabelRows rows({.columns = {"red", "blue"}});
  EXPECT_EQ(rows.add({"1", "0.0"}), "");
  EXPECT_EQ(rows.add({"True", " 1 "}), "");
  EXPECT_EQ(rows.add({"0", "false"}), "");
  ImageList list;
  EXPECT_THAT(rows.number(list), SizeIs(3));
  EXPECT_THAT(list.classes, ElementsAre("red", "blue"));
  EXPECT_THAT(list.label_sets, ElementsAre(ElementsAre(0), ElementsAre(0, 1), IsEmpty()));
}

TEST(LabelRows, UnknownMarkIsAnError) {
  LabelRows rows({.columns = {"red", "blue"}});
  EXPECT_THAT(rows.add({"1", ""}), HasSubstr("'blue' is empty"));
  EXPECT_THAT(rows.add({"-1", "0"}), HasSubstr("'red' is '-1'"));
}

TEST(Relabel, LabelSetsAreRenumberedForOtherClasses) {
  ImageList list{.classes = {"a", "b", "c"}};
  list.label_sets = {{0, 2}, {1}, {}};
  EXPECT_THAT(relabel(list, {"c", "a"}), ElementsAre(true, false, true));
  EXPECT_THAT(list.label_sets, ElementsAre(ElementsAre(0, 1), IsEmpty(), IsEmpty()));
}

}  // namespace
}  // namespace stages
