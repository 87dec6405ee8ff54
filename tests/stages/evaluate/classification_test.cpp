#include <gmock/gmock.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/memory/policy.h"
#include "tests/support/classification_fixture.h"
#include "tests/support/listening_network.h"
#include "tests/support/number_rows.h"
#include "tests/support/on_test_device.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;

TEST_F(Classification, ClassAndSampleNamesAreNotUsedAsFileNames) {
  const std::vector<std::string> hostile = {"../../up", "/tmp/evil.json", "metrics.json"};
  checkpoint_->classes = hostile;
  run(std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2}, hostile));
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(context_.node().folder))
    files.insert(entry.path().lexically_relative(context_.node().folder));
  EXPECT_THAT(files, testing::IsSubsetOf({"metrics.json", "evaluation_results.json", "curves.json",
                                          "report.txt", "confusion_matrix.csv", "predictions.csv",
                                          "suspected_labels.csv"}));
  EXPECT_EQ(nlohmann::json::parse(
                contents(context_.node().folder / "metrics.json"))["per_class"][0]["class"],
            "../../up");
}

TEST_F(Classification, MemoryPolicySetsHowTheNetworkRuns) {
  const auto network = on_test_device(std::make_shared<ListeningNetwork>());
  const auto model = std::make_shared<ListeningModel>();
  checkpoint_->network = network;
  checkpoint_->model = model;
  checkpoint_->model_stage = "student";
  memory_ = std::make_shared<MemoryPolicy>();
  memory_->precision = {Precision::kBf16, {{"student.trunk.second", Precision::kFp32}}};
  memory_->tf32 = true;
  run(flowers());
  EXPECT_THAT(network->formats(), ElementsAre(at::kBFloat16, at::kFloat, at::kBFloat16));
  EXPECT_THAT(model->tf32, testing::Each(true));
  EXPECT_THAT(
      context_.said,
      testing::Contains("tf32 has no effect on the CPU: it computes float32 products in float32"));
  memory_ = nullptr;
  run(flowers());
  EXPECT_THAT(network->formats(), ElementsAre(at::kFloat, at::kFloat, at::kFloat));
}

TEST_F(Classification, SamplesWithADifferentShapeThanInTrainingAreRejected) {
  checkpoint_->inputs = {{"image", {4}, at::kFloat}};
  EXPECT_REFUSED(refusal(flowers()), kOptionConflict, "", "[3]", "[4]");
}

TEST_F(Classification, SamplesPreparedDifferentlyFromTrainingAreReported) {
  checkpoint_->transform = "{}";
  run(flowers());
  EXPECT_THAT(
      context_.said,
      testing::Contains(
          "the test set is preprocessed differently from the training data:  now, {} then"));
}

TEST_F(Classification, ReportsTheResultNextToTheChanceLevel) {
  run(flowers(), R"({"top_k": [1, 2]})");
  EXPECT_THAT(context_.said, ElementsAre("top-1 75.0% (95% interval 30.1–95.4%), mean per class "
                                         "83.3%, chance 33.3%, 4 images"));
}

TEST_F(Classification, ReportsOmittedTopK) {
  run(flowers());
  EXPECT_EQ(context_.said.front(), "top-5 is left out: with 3 classes it is 100% by definition");
}

TEST_F(Classification, RunsInEvalModeWithoutAGraph) {
  run(flowers());
  EXPECT_FALSE(echo_->was_training);
  EXPECT_FALSE(echo_->had_graph);
}

TEST_F(Classification, MicroBatchLimitsTheBatch) {
  const auto memory = std::make_shared<MemoryPolicy>();
  memory->micro_batch = 3;
  memory_ = memory;
  run(flowers());
  EXPECT_THAT(echo_->batches, ElementsAre(3, 1));
}

TEST_F(Classification, BatchSizeBelowTheMicroBatchIsUsed) {
  const auto memory = std::make_shared<MemoryPolicy>();
  memory->micro_batch = 64;
  memory_ = memory;
  run(flowers(), R"({"batch_size": 2})");
  EXPECT_THAT(echo_->batches, ElementsAre(2, 2));
}

TEST_F(Classification, ProgressIsReportedAtEveryBatch) {
  run(flowers(), R"({"batch_size": 3})");
  ASSERT_EQ(context_.all_progress.size(), 2u);
  EXPECT_EQ(context_.all_progress[1].phase, "evaluate");
  EXPECT_EQ(context_.all_progress[1].step, 2);
  EXPECT_EQ(context_.all_progress[1].steps, 2);
}

TEST_F(Classification, SmokeRunReadsTwoBatches) {
  context_.facts.smoke = true;
  const auto test = flowers();
  run(test, R"({"batch_size": 1})");
  EXPECT_THAT(test->read, ElementsAre(0, 1));
  EXPECT_EQ(nlohmann::json::parse(contents(context_.node().folder / "metrics.json")).at("smoke"),
            true);
}

TEST_F(Classification, CancelingStopsBeforeTheNextBatch) {
  context_.on_progress = [&](const runner::Progress&) { context_.is_canceled = true; };
  EXPECT_THROW(run(flowers(), R"({"batch_size": 1})"), runner::Canceled);
  EXPECT_THAT(echo_->batches, ElementsAre(1));
  EXPECT_TRUE(std::filesystem::is_empty(context_.node().folder));
}

TEST_F(Classification, LargestFittingBatchIsSuggested) {
  const auto large = std::make_shared<NumberRows>(torch::zeros({256, 20'000}),
                                                  std::vector<std::int64_t>(256), kFlowers);
  constexpr std::int64_t kEnough = std::int64_t{1} << 40;
  const std::int64_t of_8 = plan(large, 8, kEnough).needed, of_64 = plan(large, 64, kEnough).needed;
  ASSERT_LT(of_8, of_64);
  const runner::MemoryPlan found = plan(large, 64, (of_8 + of_64) / 2);
  ASSERT_EQ(found.alternatives.size(), 1u);
  const std::string text = found.alternatives[0].overrides.at(0), start = "evaluate.batch_size=";
  ASSERT_TRUE(text.starts_with(start)) << text;
  const std::int64_t size = std::stoll(text.substr(start.size()));
  EXPECT_TRUE(size >= 8 && size < 64) << text;
  EXPECT_TRUE(plan(large, size, (of_8 + of_64) / 2).fits());
  EXPECT_FALSE(plan(large, size + 1, (of_8 + of_64) / 2).fits());
  EXPECT_TRUE(plan(large, 64, kEnough).alternatives.empty());

  memory_ = std::make_shared<MemoryPolicy>();
  memory_->allow = Allow::kExact;
  const runner::MemoryPlan chosen = plan(large, 64, (of_8 + of_64) / 2);
  EXPECT_TRUE(chosen.fits());
  ASSERT_TRUE(chosen.choice);
  EXPECT_EQ(chosen.choice->overrides, std::vector{text});
  EXPECT_EQ(chosen.choice->summary, "batches of " + std::to_string(size) + " samples");
  EXPECT_EQ(chosen.choice->whole, found.needed);
  EXPECT_EQ(chosen.step.at("batch_size"), size);
}

TEST_F(Classification, PlanCountsLabelsAndCurvesOfAllSamples) {
  const auto data = std::make_shared<NumberRows>(torch::zeros({1000, 50}),
                                                 std::vector<std::int64_t>(1000), kFlowers);
  const runner::MemoryPlan found = plan(data, 8, std::int64_t{1} << 40);
  const auto metrics = std::ranges::find(found.terms, "metrics", &runner::NamedBytes::name);
  ASSERT_NE(metrics, found.terms.end());
  // Labels count twice; each pair has a probability, and a point on the curves of its class and of
  // all classes, which are sorted first.
  EXPECT_EQ(metrics->bytes, 2 * 8 * 1000 + 1000 * 50 * (8 + 16 + 16 + 16) + 50 * 16);
}

}  // namespace
}  // namespace stages
