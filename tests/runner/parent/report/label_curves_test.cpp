#include "runner/parent/report/label_curves.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class LabelCurvesTest : public testing::Test {
 protected:
  LabelCurvesTest() {
    curves_ = json::parse(R"({"labels": 2, "calibration": null,
      "roc": {"auc_macro": 0.75, "macro": null, "micro": null,
              "classes": [{"class": "dog", "auc": 0.75, "fpr": [0, 0.5, 1], "tpr": [0, 1, 1]}]},
      "precision_recall": {"mean_average_precision": 0.9, "classes": [
        {"class": "sky", "support": 4, "average_precision": 1, "recall": [0, 1], "precision": [1, 1]},
        {"class": "dog", "support": 1, "average_precision": 0.5, "recall": [0, 1],
         "precision": [1, 0.5]}]}})");
  }
  Result<LabelCurves> read() {
    folder_.write("nodes/evaluate/curves.json", curves_.dump());
    return read_label_curves(folder_.path(), "evaluate");
  }
  /// Returns the error message, starting with the file name.
  std::string damage() {
    const auto result = read();
    if (result) return "read";
    EXPECT_EQ(result.errors().at(0).code, ErrorCode::kDamagedRecord);
    const std::string& message = result.errors().at(0).message;
    return message.substr(message.rfind("curves.json"));
  }

  TemporaryFolder folder_;
  json curves_;
};

TEST_F(LabelCurvesTest, CurvesAreReadFromTheFile) {
  const auto result = read();
  ASSERT_TRUE(result) << result.errors()[0].message;
  EXPECT_EQ(result->labels, 2);
  ASSERT_EQ(result->curves.size(), 2u);
  EXPECT_EQ(result->curves[0].label, "sky");
  EXPECT_EQ(result->curves[0].support, 4);
  EXPECT_FALSE(result->curves[0].area) << "all samples have the label";
  EXPECT_EQ(result->curves[1].area, 0.75);
  EXPECT_EQ(result->curves[1].roc[1].x, 0.5);
  EXPECT_EQ(result->curves[1].roc[1].y, 1);
  EXPECT_EQ(result->curves[1].precision_recall[1].x, 1);
  EXPECT_EQ(result->curves[1].precision_recall[1].y, 0.5);
}

TEST_F(LabelCurvesTest, OtherEvaluationsHaveNoCurves) {
  const auto missing = read_label_curves(folder_.path(), "evaluate");
  ASSERT_TRUE(missing);
  EXPECT_TRUE(missing->curves.empty());
  curves_.erase("precision_recall");
  const auto of_classes = read();
  ASSERT_TRUE(of_classes);
  EXPECT_TRUE(of_classes->curves.empty());
}

TEST_F(LabelCurvesTest, DamageIsDescribed) {
  const json whole = curves_;
  const auto with = [&](const char* pointer, const json& value) {
    curves_ = whole;
    curves_[json::json_pointer(pointer)] = value;
    return damage();
  };
  EXPECT_EQ(with("/labels", -1), "curves.json' is damaged: it has a 'labels' that is not a count");
  EXPECT_EQ(with("/precision_recall/classes/0/recall", {0}),
            "curves.json' is damaged: 'recall' and 'precision' do not form a curve");
  EXPECT_EQ(with("/roc/classes/0/tpr/1", 2),
            "curves.json' is damaged: 'tpr' is not between 0 and 1");
  EXPECT_EQ(with("/roc/classes/0/class", "cat"),
            "curves.json' is damaged: 'cat' has no precision-recall curve");
  curves_ = json::array();
  EXPECT_EQ(damage(), "curves.json' is damaged: it is not a JSON object");
}

/// Gives each field in turn another kind of value, which must be rejected or accepted.
TEST_F(LabelCurvesTest, DamagedFieldsCauseNoCrash) {
  const json whole = curves_, flat = whole.flatten();
  const std::vector<json> others = {nullptr, -1, 0.5, "x", json::array(), json::object(), {1, 2}};
  for (const auto& [pointer, value] : flat.items()) {
    for (std::string place = pointer; !place.empty(); place.resize(place.rfind('/'))) {
      for (const json& other : others) {
        curves_ = whole;
        curves_[json::json_pointer(place)] = other;
        damage();
      }
    }
  }
}

TEST_F(LabelCurvesTest, LegendListsEachLabelWithItsMetrics) {
  const std::string svg = draw_label_curves(*read(), "a <run>").svg();
  EXPECT_THAT(svg, HasSubstr(">Precision, recall and ROC of a &lt;run&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr(">2 labels</desc>"));
  EXPECT_THAT(
      svg,
      HasSubstr(">sky: average precision 1.000, area under ROC not defined, 4 samples</text>"));
  EXPECT_THAT(svg,
              HasSubstr(">dog: average precision 0.500, area under ROC 0.750, 1 sample</text>"));
}

TEST_F(LabelCurvesTest, PrecisionIsDrawnInSteps) {
  // The plot of precision against recall begins at (70, 56) and has sides of 330.
  EXPECT_THAT(draw_label_curves(*read(), "run").svg(),
              HasSubstr("<polyline class=\"line color-2\" points=\"70,56 70,221 400,221\"/>"));
}

TEST_F(LabelCurvesTest, OnlyTheMostFrequentLabelsAreDrawn) {
  LabelCurves curves = *read();
  curves.labels = 80;
  while (curves.curves.size() < 20) curves.curves.push_back(curves.curves[1]);
  curves.curves[7].label = "last drawn";
  curves.curves[8].label = "left out";
  const std::string svg = draw_label_curves(curves, "run").svg();
  EXPECT_THAT(svg, HasSubstr(">The 8 most frequent of 80 labels</text>"));
  EXPECT_THAT(svg, HasSubstr("last drawn"));
  EXPECT_THAT(svg, Not(HasSubstr("left out")));
}

}  // namespace
}  // namespace runner
