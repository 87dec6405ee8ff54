#include "runner/parent/report/pooled_predictions.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

class PooledPredictions : public testing::Test {
 protected:
  PredictionTable table(const std::string& text) const {
    folder_.write("nodes/evaluate.fold/predictions.csv", text);
    auto table = read_prediction_table(folder_.path(), "evaluate.fold");
    EXPECT_TRUE(table) << (table ? "" : table.errors().front().message);
    return table ? *std::move(table) : PredictionTable{};
  }
  Diagnostics errors(const std::string& text) const {
    folder_.write("nodes/evaluate.fold/predictions.csv", text);
    return refusals_of([&] { return read_prediction_table(folder_.path(), "evaluate.fold"); });
  }
  static std::map<std::string, double> values(const PooledMetrics& pooled) {
    std::map<std::string, double> values;
    for (const PooledMetric& metric : pooled.metrics) values[metric.name] = metric.value;
    return values;
  }
  TemporaryFolder folder_;
};

// Ten samples of three classes in two tables: a has 4 samples, 2 of them predicted correctly; b has
// 2, 1 of them correctly; c has 4, 2 of them correctly.
constexpr const char* kFirst =
    "name,label,predicted,correct,probability,top_1,top_2,top_3\n"
    "1,a,a,true,1,a,b,c\n2,a,b,false,1,b,c,a\n3,a,a,true,1,a,b,c\n4,b,b,true,1,b,a,c\n"
    "5,b,c,false,1,c,b,a\n";
constexpr const char* kSecond =
    "name,label,predicted,correct,probability,top_1,top_2,top_3\n"
    "6,c,c,true,1,c,b,a\n7,c,c,true,1,c,b,a\n8,c,a,false,1,a,c,b\n9,c,b,false,1,b,a,c\n"
    "10,a,b,false,1,b,a,c\n";

TEST_F(PooledPredictions, MetricsAreComputedOverAllTables) {
  const std::vector<PredictionTable> tables = {table(kFirst), table(kSecond)};
  const PooledMetrics pooled = pooled_metrics(tables, {2}, 0);
  EXPECT_EQ(pooled.samples, 10);
  EXPECT_EQ(pooled.groups, 10);
  EXPECT_FALSE(pooled.has_groups);
  // Predicted: a 3 times (2 right), b 4 times (1 right), c 3 times (2 right).
  const std::map<std::string, double> found = values(pooled);
  const std::map<std::string, double> expected = {
      {"top1", 0.5},
      {"top2", 0.8},  // all but the 2nd and the 9th
      {"mean_per_class", 0.5},
      {"macro_precision", (2.0 / 3 + 1.0 / 4 + 2.0 / 3) / 3},
      {"macro_recall", 0.5},
      {"macro_f1", (4.0 / 7 + 2.0 / 6 + 4.0 / 7) / 3},
      {"weighted_precision", 0.4 * 2 / 3 + 0.2 / 4 + 0.4 * 2 / 3},
      {"weighted_recall", 0.5},
      {"weighted_f1", 0.4 * 4 / 7 + 0.2 * 2 / 6 + 0.4 * 4 / 7}};
  ASSERT_EQ(found.size(), expected.size());
  // The values are sums of ten products of numbers below 1, with at most ten roundings of 2^-53.
  for (const auto& [name, value] : expected) EXPECT_NEAR(found.at(name), value, 1e-15) << name;
}

TEST_F(PooledPredictions, MissingTopKIsLeftOut) {
  EXPECT_FALSE(values(pooled_metrics(std::vector{table(kFirst)}, {4}, 0)).contains("top4"));
}

TEST_F(PooledPredictions, GradesHaveKappaAndMeanAbsoluteError) {
  // Labels 0, 1, 1, 2 and predictions 0, 1, 2, 0: the squared distances are 0, 0, 1 and 4. By
  // chance, each label is paired with each prediction.
  const PooledMetrics pooled = pooled_metrics(
      std::vector{table("name,grade,prediction,p_0,p_1,p_2\n1,0,0,1,0,0\n2,1,1,0,1,0\n"
                        "3,1,2,0,0,1\n4,2,0,1,0,0\n")},
      {}, 0);
  const double by_chance = (0 + 1 + 4 + 0) + 2 * (1 + 0 + 1 + 1) + (4 + 1 + 0 + 4);
  EXPECT_NEAR(values(pooled).at("quadratic_kappa"), 1 - (0 + 0 + 1 + 4) * 4 / by_chance, 1e-15);
  EXPECT_EQ(values(pooled).at("mean_absolute_error"), (0 + 0 + 1 + 2) / 4.0);
}

TEST_F(PooledPredictions, LossComesFromTheLabelProbabilities) {
  const std::vector<PredictionTable> tables = {
      table("name,label,predicted,label_probability\n1,a,a,0.5\n2,b,a,0.25\n"),
      table("name,label,predicted,label_probability\n3,a,a,1\n")};
  EXPECT_NEAR(values(pooled_metrics(tables, {}, 0)).at("log_loss"), std::log(8) / 3, 1e-15);
  const std::vector<PredictionTable> without = {tables[0], table("name,label,predicted\n3,a,a\n")};
  EXPECT_FALSE(values(pooled_metrics(without, {}, 0)).contains("log_loss"));
}

TEST_F(PooledPredictions, GradesHaveALossAndAnArea) {
  const std::vector<PredictionTable> tables = {
      table("name,grade,prediction,p_0,p_1\n1,0,0,0.75,0.25\n2,1,0,0.5,0.5\n"),
      table("name,grade,prediction,p_0,p_1\n3,1,1,0.25,0.75\n4,0,1,0.375,0.625\n")};
  const auto found = values(pooled_metrics(tables, {}, 0));
  // For grade 1, the positives 0.5 and 0.75 are above the negatives 0.25 and 0.625 in three of four
  // pairs; grade 0 is the same in reverse.
  EXPECT_EQ(found.at("auc_macro"), 0.75);
  EXPECT_NEAR(found.at("log_loss"), -std::log(0.75 * 0.5 * 0.75 * 0.375) / 4, 1e-15);
}

TEST_F(PooledPredictions, MultipleLabelsAreMeasuredSeparatelyAndTogether) {
  const std::vector<PredictionTable> tables = {
      table("name,label,predicted,correct,p_a,p_ab\n1,a,a,true,0.9,0.2\n2,a|ab,ab,false,0.4,0.8\n"),
      table("name,label,predicted,correct,p_a,p_ab\n3,ab,a|ab,false,0.6,0.8\n4,,,true,0.4,0.1\n"
            "5,a,,false,0.3,0.3\n")};
  const PooledMetrics pooled = pooled_metrics(tables, {}, 0);
  EXPECT_EQ(pooled.samples, 5);
  // 3 samples have label a, and 2 are predicted to have it, 1 of them correctly; for ab, these are
  // 2, 2 and 2. In the ranking of a, the positives are first, third (with a negative of the same
  // score) and last.
  const std::map<std::string, double> expected = {
      {"mean_average_precision", ((1 + 2.0 / 4 + 3.0 / 5) / 3 + 1) / 2},
      {"auc_macro", (2.5 / 6 + 1) / 2},
      {"micro_precision", 3.0 / 4},
      {"micro_recall", 3.0 / 5},
      {"micro_f1", 6.0 / 9},
      {"macro_precision", (1.0 / 2 + 1) / 2},
      {"macro_recall", (1.0 / 3 + 1) / 2},
      {"macro_f1", (2.0 / 5 + 1) / 2},
      {"hamming_loss", 3.0 / 10},
      {"subset_accuracy", 2.0 / 5}};
  const std::map<std::string, double> found = values(pooled);
  ASSERT_EQ(found.size(), expected.size());
  // The values are sums of at most ten numbers below 2, with at most ten roundings of 2^-53.
  for (const auto& [name, value] : expected) EXPECT_NEAR(found.at(name), value, 2e-15) << name;
}

TEST_F(PooledPredictions, NumericTargetsHaveErrorMetrics) {
  const std::vector<PredictionTable> tables = {
      table("name,target_age,prediction_age,residual_age,target_height,prediction_height\n"
            "1,1,1.5,-0.5,10,11\n2,2,2,0,20,18\n"),
      table("name,target_age,prediction_age,residual_age,target_height,prediction_height\n"
            "3,3,2,1,30,33\n4,5,6,-1,10,10\n")};
  const std::map<std::string, double> found = values(pooled_metrics(tables, {}, 0));
  ASSERT_EQ(found.size(), 9U);
  EXPECT_EQ(found.at("mae/age"), 2.5 / 4);
  EXPECT_EQ(found.at("rmse/age"), 0.75);
  EXPECT_EQ(found.at("r2/age"), 1 - 2.25 / 8.75);
  EXPECT_EQ(found.at("mae/height"), 1.5);
  EXPECT_EQ(found.at("rmse/height"), std::sqrt(3.5));
  EXPECT_EQ(found.at("r2/height"), 1 - 14.0 / 275);
  EXPECT_EQ(found.at("mae"), (0.625 + 1.5) / 2);
  EXPECT_EQ(found.at("rmse"), 0.75 / 2 + std::sqrt(3.5) / 2);
  EXPECT_EQ(found.at("r2"), ((1 - 2.25 / 8.75) + (1 - 14.0 / 275)) / 2);
}

TEST_F(PooledPredictions, ConstantTargetsHaveNoR2) {
  const auto found = values(pooled_metrics(
      std::vector{table("name,target,prediction,group\n1,2,1,p\n2,2,3,p\n")}, {}, 0));
  EXPECT_EQ(found.at("mae"), 1);
  EXPECT_FALSE(found.contains("r2"));
}

TEST_F(PooledPredictions, UnsupportedTablesGiveNoMetrics) {
  EXPECT_EQ(pooled_metrics(std::vector{table("name,output_0\n1,2\n")}, {}, 0).samples, 0);
  EXPECT_EQ(pooled_metrics(std::vector{table("name,target,prediction\n1,2,2\n"),
                                       table("name,label,predicted\n2,a,a\n")},
                           {}, 0)
                .samples,
            0);
}

TEST_F(PooledPredictions, SameSeedGivesTheSameInterval) {
  const std::vector<PredictionTable> tables = {table(kFirst), table(kSecond)};
  const auto interval = [&](std::uint64_t seed) {
    const BootstrapInterval found = pooled_metrics(tables, {}, seed).metrics.front().interval;
    return std::pair(found.low, found.high);
  };
  EXPECT_EQ(interval(3), interval(3));
  EXPECT_LT(interval(3).first, 0.5);
  EXPECT_GT(interval(3).second, 0.5);
}

TEST_F(PooledPredictions, AccuracyIntervalMatchesItsDistribution) {
  // 300 of 400 samples are correct: draws have a deviation of sqrt(0.75 * 0.25 / 400) = 0.02165,
  // and the interval extends 1.96 times that to each side. Draws are multiples of 1 / 400 = 0.0025,
  // and the standard error of this percentile of 10,000 draws is sqrt(0.025 * 0.975 / 10,000) / 2.7
  // = 0.0006, where 2.7 is the density there.
  std::string text = "name,label,predicted\n";
  for (int i = 0; i < 400; ++i) text += std::to_string(i) + (i % 4 == 0 ? ",a,b\n" : ",a,a\n");
  const PooledMetric top1 = pooled_metrics(std::vector{table(text)}, {}, 0).metrics.front();
  EXPECT_NEAR(top1.interval.low, 0.75 - 0.0424, 0.005);
  EXPECT_NEAR(top1.interval.high, 0.75 + 0.0424, 0.005);
}

TEST_F(PooledPredictions, WholeGroupsAreResampled) {
  // Two groups, one of them entirely correct: each draw has an accuracy of 0, 1/2 or 1, so the
  // interval goes from 0 to 1. If samples were drawn one by one, 400 would stay close to 1/2.
  std::string text = "name,label,predicted,group\n";
  for (int i = 0; i < 400; ++i)
    text += std::to_string(i) + (i % 2 == 0 ? ",a,b,one\n" : ",a,a,two\n");
  const PooledMetrics pooled = pooled_metrics(std::vector{table(text)}, {}, 0);
  EXPECT_TRUE(pooled.has_groups);
  EXPECT_EQ(pooled.groups, 2);
  EXPECT_EQ(pooled.metrics.front().interval.low, 0);
  EXPECT_EQ(pooled.metrics.front().interval.high, 1);
}

TEST_F(PooledPredictions, SampleWithoutAGroupIsItsOwnGroup) {
  const PooledMetrics pooled = pooled_metrics(
      std::vector{table("name,label,predicted,group\n1,a,a,p\n2,a,a,\n3,a,a,p\n4,a,a,\n")}, {}, 0);
  EXPECT_EQ(pooled.groups, 3);
}

TEST_F(PooledPredictions, DamagedTableIsReported) {
  EXPECT_REFUSED(errors(""), kDamagedRecord, "", "it is empty");
  EXPECT_REFUSED(errors("name,label\n"), kDamagedRecord, "", "it has no column 'predicted'");
  EXPECT_REFUSED(errors("name,label,predicted\na,b\n"), kDamagedRecord, "",
                 "its row 2 has 2 fields, not 3");
  for (const char* text :
       {"name,target,prediction\na,1,inf\n", "name,label,predicted,correct,p_a\n1,a,a,true,nan\n",
        "name,label,predicted,correct,p_a\n1,a,a,true,\n"})
    EXPECT_REFUSED(errors(text), kDamagedRecord, "", "one of its values is not a finite number");
}

TEST_F(PooledPredictions, MissingTableIsReported) {
  EXPECT_REFUSED(read_prediction_table(folder_.path(), "evaluate"), kNoResults, "",
                 "predictions.csv");
}

}  // namespace
}  // namespace runner
