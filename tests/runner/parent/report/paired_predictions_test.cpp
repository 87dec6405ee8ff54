#include "runner/parent/report/paired_predictions.h"

#include <cmath>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;

/// Adds samples of the class `label`. `counts` are the numbers of samples that are classified
/// correctly by both, only by `run`, only by `base`, and by neither.
void add(std::vector<RecordedPrediction>& run, std::vector<RecordedPrediction>& base,
         const std::string& label, std::initializer_list<int> counts) {
  int kind = 0;
  for (const int count : counts) {
    for (int i = 0; i < count; ++i) {
      const std::string name = label + std::to_string(run.size());
      run.push_back({name, label, kind < 2});
      base.push_back({name, label, kind == 0 || kind == 2});
    }
    ++kind;
  }
}

PairedClassifiers compared(std::initializer_list<int> counts, std::uint64_t seed = 0) {
  std::vector<RecordedPrediction> run, base;
  add(run, base, "a", counts);
  return compare_classifiers(run, base, seed);
}

TEST(PairedClassifiers, ExactAndMidPValuesAreCorrect) {
  // 1 + 10 + 45 of the 1024 outcomes of 10 tosses have at most 2 heads; the exact test doubles
  // that. The mid-p test subtracts the 45 with exactly 2 once.
  const PairedClassifiers one = compared({30, 8, 2, 5});
  EXPECT_NEAR(one.p_value, 0.109375, 1e-12);
  EXPECT_NEAR(one.mid_p, 0.109375 - 45.0 / 1024, 1e-12);
  EXPECT_EQ(one.better, 8);
  EXPECT_EQ(one.worse, 2);
  EXPECT_EQ(one.equal, 35);
  // For 40 of 100, the value was computed with Python's integers. For 3000 of 12000, it is too
  // small for a double.
  EXPECT_NEAR(compared({0, 40, 60, 0}).p_value, 0.056887933640, 1e-11);
  EXPECT_EQ(compared({0, 3000, 9000, 0}).p_value, 0);
  EXPECT_NEAR(compared({0, 1, 0, 0}).p_value, 1, 1e-15);
  EXPECT_NEAR(compared({0, 1, 0, 0}).mid_p, 0.5, 1e-12);
}

TEST(PairedClassifiers, EqualClassifiersDoNotDiffer) {
  for (const auto& one : {compared({3, 0, 0, 4}), compared({0, 5, 5, 0})}) {
    EXPECT_EQ(one.p_value, 1);
    EXPECT_NEAR(one.mid_p, 1, 1e-12);
    EXPECT_EQ(one.accuracy.value, 0);
  }
  EXPECT_EQ(compared({3, 0, 0, 4}).accuracy.high, 0);
}

TEST(PairedClassifiers, IntervalMatchesThePairedFormula) {
  const PairedClassifiers one = compared({600, 150, 50, 200});
  EXPECT_NEAR(one.accuracy.value, 0.1, 1e-12);
  // The standard error is the deviation of a difference that is 1, -1 or 0 with these shares,
  // divided by the root of 1000.
  const double error = std::sqrt((0.15 + 0.05 - 0.01) / 1000);
  EXPECT_NEAR(one.accuracy.low, 0.1 - 1.96 * error, 0.002);
  EXPECT_NEAR(one.accuracy.high, 0.1 + 1.96 * error, 0.002);
  EXPECT_EQ(one.mean_per_class->low, one.accuracy.low) << "there is one class";
}

TEST(PairedClassifiers, SmallClassesCountEquallyInThePerClassMean) {
  std::vector<RecordedPrediction> run, base;
  add(run, base, "large", {90, 0, 10, 0});
  add(run, base, "small", {0, 5, 0, 5});
  const PairedClassifiers one = compare_classifiers(run, base, 0);
  EXPECT_NEAR(one.accuracy.value, -5.0 / 110, 1e-12);
  EXPECT_NEAR(one.mean_per_class->value, (-0.1 + 0.5) / 2, 1e-12);
  EXPECT_LT(one.mean_per_class->low, one.mean_per_class->value);
}

TEST(PairedClassifiers, IntervalsDependOnTheSeed) {
  EXPECT_EQ(compared({60, 15, 5, 20}).accuracy.low, compared({60, 15, 5, 20}).accuracy.low);
  std::vector<RecordedPrediction> run, base;
  for (const char* label : {"a", "b", "c"}) add(run, base, label, {20, 7, 3, 9});
  EXPECT_NE(compare_classifiers(run, base, 1).mean_per_class->low,
            compare_classifiers(run, base, 2).mean_per_class->low);
}

/// Runs with different predictions.
class PairedRuns : public testing::Test {
 protected:
  Comparison::Row row(const std::string& run, const std::string& predictions) {
    if (!predictions.empty()) folder_.write(run + "/nodes/evaluate/predictions.csv", predictions);
    Comparison::Row row{.evaluation = {}};
    row.folder = folder_ / run;
    row.title = run;
    row.evaluation.node = "evaluate";
    return row;
  }
  /// The first error reported when pairing two such runs.
  std::string refusal(const std::string& base, const std::string& run) {
    Comparison comparison;
    comparison.rows = {row("a", base), row("b", run)};
    const auto pairs = paired_classifiers(comparison, 0);
    if (pairs) return "paired";
    std::string text = pairs.errors()[0].message;
    const std::size_t at = text.find(folder_.path().string());
    return at == text.npos ? text : text.erase(at, folder_.path().string().size());
  }
  TemporaryFolder folder_;
  static constexpr const char* kBase =
      "name,label,predicted,correct\nx.jpg,cat,cat,true\n\"y,1.jpg\",dog,cat,false\n";
};

TEST_F(PairedRuns, SamplesArePairedByName) {
  Comparison comparison;
  comparison.rows = {row("a", kBase),
                     row("b", "name,grade,prediction\n\"y,1.jpg\",dog,dog\nx.jpg,cat,cat\n")};
  const auto pairs = paired_classifiers(comparison, 7);
  ASSERT_TRUE(pairs) << pairs.errors()[0].message;
  EXPECT_EQ(pairs->front().better, 1);
  EXPECT_EQ(pairs->front().equal, 1);
  EXPECT_EQ(to_json(*pairs)[0]["seed"], 7);
  EXPECT_THAT(paired_text(*pairs), HasSubstr("b against a          +50.00%   +0.00% to +100.00%"));
}

TEST_F(PairedRuns, WholeLabelSetsAreCompared) {
  Comparison comparison;
  comparison.multi_label = {
      row("a",
          "name,label,predicted,correct,p_red,p_blue\nx.jpg,red|blue,red,false,0.9,0.2\n"
          "y.jpg,,,true,0.1,0.2\nz.jpg,red,red,true,0.9,0.1\n"),
      row("b",
          "name,label,predicted,correct,p_red,p_blue\nx.jpg,red|blue,red|blue,true,0.9,0.8\n"
          "y.jpg,,,true,0.1,0.2\nz.jpg,red,red,true,0.9,0.1\n")};
  const auto pairs = paired_classifiers(comparison, 7);
  ASSERT_TRUE(pairs) << pairs.errors()[0].message;
  EXPECT_EQ(pairs->front().better, 1);
  EXPECT_EQ(pairs->front().equal, 2);
  const nlohmann::json json = to_json(*pairs)[0];
  EXPECT_DOUBLE_EQ(json["subset_accuracy"]["difference"], 1.0 / 3);
  EXPECT_FALSE(json.contains("accuracy"));
  EXPECT_FALSE(json.contains("mean_per_class")) << "label sets are not classes";
  EXPECT_THAT(paired_text(*pairs),
              testing::AllOf(HasSubstr("subset accuracy"), testing::Not(HasSubstr("per class"))));
}

TEST_F(PairedRuns, DifferentSamplesAreRejected) {
  EXPECT_EQ(refusal(kBase, "name,label,predicted\nx.jpg,cat,cat\nz.jpg,dog,dog\n"),
            "'b' was evaluated on different samples than 'a': 'y,1.jpg' is in only one of them");
  EXPECT_EQ(refusal(kBase, "name,label,predicted\nx.jpg,cat,cat\n"),
            "'b' was evaluated on different samples than 'a': there are 1 and 2");
  EXPECT_EQ(refusal(kBase, "name,label,predicted\nx.jpg,dog,cat\n\"y,1.jpg\",dog,dog\n"),
            "'b' was evaluated on different samples than 'a': 'x.jpg' is labeled 'dog' in one and "
            "'cat' in the other");
}

TEST_F(PairedRuns, UnusableFilesAreReported) {
  EXPECT_EQ(refusal(kBase, "name,label,predicted\n"), "'b' was evaluated on no samples");
  EXPECT_EQ(refusal(kBase, "name,label\nx,a\n"),
            "'/b/nodes/evaluate/predictions.csv' cannot be used: it has no column 'predicted'");
  EXPECT_EQ(refusal(kBase, "name,label,predicted\nx,a\n"),
            "'/b/nodes/evaluate/predictions.csv' cannot be used: its row 2 has 2 fields, not 3");
  std::filesystem::remove_all(folder_ / "b");
  EXPECT_EQ(refusal(kBase, ""),
            "there is no '/b/nodes/evaluate/predictions.csv', so the run cannot be paired");
}

}  // namespace
}  // namespace runner
