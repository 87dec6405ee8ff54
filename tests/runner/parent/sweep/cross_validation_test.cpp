#include "runner/parent/sweep/cross_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/sweep/sweep_results.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::ordered_json;

class CrossValidationTest : public testing::Test {
 protected:
  /// Adds a finished trial with the predictions `rows`, which are lines of name,label,predicted.
  void add(int fold, const std::string& rows, double top1, const std::string& rate = "0.1") {
    const std::string trial = std::to_string(trials_.size());
    folder_.write("recipes/" + trial + ".yaml", recipe(fold, rate));
    folder_.write(trial + "/.retort/graph.json", graph());
    folder_.write(trial + "/nodes/evaluate.fold/predictions.csv", "name,label,predicted\n" + rows);
    folder_.write(trial + "/summary.json",
                  Json{{"metrics",
                        {{"evaluate.fold",
                          {{"evaluate/top1", {{"value", top1}, {"step", 1}}},
                           {"evaluate/samples", {{"value", 2}, {"step", 1}}}}},
                         {"train", {{"validation/loss", {{"value", 1}, {"step", 1}}}}}}}}
                      .dump());
    trials_.push_back({.number = trials_.size(),
                       .hash = std::string(64, 'a'),
                       .settings = {"data.folds.index=" + std::to_string(fold), "lr=" + rate},
                       .state = TrialState::kFinished});
  }
  static std::string recipe(int fold, const std::string& rate) {
    return "data:\n  kind: data.image_folder\n  folds:\n    count: 3\n    index: " +
           std::to_string(fold) + "\ntrain:\n  rate: " + rate + "\n";
  }
  virtual std::string graph() const {
    return Json{{"nodes",
                 {{{"id", "data"}, {"kind", "data.image_folder"}, {"inputs", Json::array()}},
                  {{"id", "evaluate"},
                   {"kind", "evaluate.classification"},
                   {"inputs", {{{"output", "test"}, {"type", "dataset"}}}}},
                  {{"id", "evaluate.fold"},
                   {"kind", "evaluate.classification"},
                   {"inputs", {{{"output", "validation"}, {"type", "dataset"}}}}}}}}
        .dump();
  }
  void add_three(const std::string& rate = "0.1") {
    add(0, "1,a,a\n2,b,b\n", 1, rate);
    add(1, "3,a,a\n4,b,a\n", 0.5, rate);
    add(2, "5,a,b\n6,b,a\n", 0, rate);
  }
  std::vector<CrossValidation> found() {
    return read_cross_validations(folder_.path(), trials_, sources_);
  }

  TemporaryFolder folder_;
  Sources sources_;
  std::vector<Trial> trials_;
};

TEST_F(CrossValidationTest, FoldsAreSummarized) {
  add_three();
  const auto all = found();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].node, "evaluate.fold");
  EXPECT_EQ(all[0].settings, "") << "keys that all trials share are omitted";
  const std::vector<FoldMean> means = all[0].means();
  ASSERT_EQ(means.size(), 1u) << "the number of samples is not a quality metric";
  EXPECT_EQ(means[0].metric, "evaluate/top1");
  EXPECT_EQ(means[0].mean, 0.5);
  EXPECT_EQ(means[0].deviation, 0.5);
  ASSERT_TRUE(all[0].pooled);
  EXPECT_EQ(all[0].pooled->samples, 6);
  EXPECT_EQ(all[0].pooled->metrics.front().name, "evaluate/top1");
  EXPECT_EQ(all[0].pooled->metrics.front().value, 0.5);
}

TEST_F(CrossValidationTest, TrialsWithDifferentSettingsAreSeparate) {
  add_three("0.1");
  add_three("0.2");
  const auto all = found();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].settings, "lr=0.1");
  EXPECT_EQ(all[1].settings, "lr=0.2");
  EXPECT_EQ(all[1].folds.front().trial, 3u);
}

TEST_F(CrossValidationTest, FoldsAreNotPooledWhileOneIsMissing) {
  add_three();
  trials_[1].state = TrialState::kFailed;
  const auto all = found();
  EXPECT_FALSE(all[0].pooled);
  EXPECT_EQ(all[0].means()[0].folds, 2u);
  EXPECT_THAT(cross_validation_text(all),
              HasSubstr("nothing is pooled: fold 1 of 3 has no out-of-fold predictions; mean and "
                        "SD are over 2 of 3 folds\n"));
  EXPECT_THAT(cross_validation_text(all), Not(HasSubstr("pooled ")));
}

TEST_F(CrossValidationTest, FoldWithoutATrialIsMissing) {
  add(0, "1,a,a\n", 1);
  add(1, "2,a,a\n", 1);
  EXPECT_EQ(found()[0].not_pooled, "fold 2 of 3 has no out-of-fold predictions");
}

TEST_F(CrossValidationTest, SampleInTwoFoldsIsNotPooled) {
  add(0, "1,a,a\n", 1);
  add(1, "2,a,a\n", 1);
  add(2, "1,a,a\n", 1);
  EXPECT_EQ(found()[0].not_pooled, "'1' is in folds 0, 2, so the folds do not belong together");
}

TEST_F(CrossValidationTest, SameFoldFromSeveralTrialsIsNotACrossValidation) {
  add(1, "1,a,a\n", 1, "0.1");
  add(1, "1,a,a\n", 1, "0.2");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(CrossValidationTest, TableHasFoldsMeanAndPooledMetrics) {
  add_three();
  EXPECT_EQ(cross_validation_text(found()),
            "\n"
            "cross-validation over 3 folds, evaluate.fold:\n"
            "fold    trial  state     samples  evaluate/top1\n"
            "0       0      finished  2               1.0000\n"
            "1       1      finished  2               0.5000\n"
            "2       2      finished  2               0.0000\n"
            "mean                                     0.5000\n"
            "SD                                       0.5000\n"
            "pooled                   6               0.5000\n"
            "95%                               0.1667–0.8333\n"
            "95% intervals: bootstrap of 6 samples, 10000 draws\n");
}

TEST_F(CrossValidationTest, PredictionsAreInOneTable) {
  add(0, "1,a,a\n", 1);
  add(1, "2,a,b\n", 0);
  EXPECT_EQ(out_of_fold_csv(found()),
            "trial,fold,node,name,label,predicted\n"
            "0,0,evaluate.fold,1,a,a\n"
            "1,1,evaluate.fold,2,a,b\n");
}

TEST_F(CrossValidationTest, FoldIsNotTheBestTrial) {
  add_three();
  SweepResults results;
  results.objective = Objective{.metric = "evaluate/top1"};
  for (const Trial& trial : trials_)
    results.trials.push_back({.trial = trial, .settings = {}, .metrics = {{"evaluate/top1", 1}}});
  EXPECT_THAT(results_text(results), HasSubstr("best: trial 0"));
  results.cross_validations = found();
  EXPECT_THAT(results_text(results), Not(HasSubstr("best")));
  EXPECT_THAT(results_text(results), HasSubstr("cross-validation over 3 folds"));
}

class CrossValidationWithoutEvaluation : public CrossValidationTest {
 protected:
  std::string graph() const override { return R"({"nodes": []})"; }
};

TEST_F(CrossValidationWithoutEvaluation, ValidationMetricsAreSummarized) {
  add_three();
  const auto all = found();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].means()[0].metric, "validation/loss");
  EXPECT_EQ(all[0].not_pooled, "no evaluation predicts the folds");
  EXPECT_EQ(to_json(all)[0]["node"], nullptr);
}

}  // namespace
}  // namespace runner
