#include "stages/artifact/targets.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

using testing::ElementsAre;

DatasetDescription ages() {
  return {.size = 2,
          .tensors = {{"image", {2}, at::kFloat}, {"target", {1}, at::kDouble}},
          .classes = {"age"}};
}

TEST(Targets, AreRecognizedByTheirTensor) {
  EXPECT_TRUE(has_targets(ages()));
  DatasetDescription whole = ages();
  whole.tensors[1].dtype = at::kLong;
  EXPECT_FALSE(has_targets(whole));
  DatasetDescription two = ages();
  two.classes.emplace_back("weight");
  EXPECT_FALSE(has_targets(two));
}

TEST(Targets, StandardizationIsReversible) {
  const at::Tensor targets = torch::tensor({{1.0, 5e9}, {3.0, 5e9 + 4}}, at::kDouble);
  TrainedTargets trained = target_statistics(targets);
  EXPECT_THAT(trained.mean, ElementsAre(2, 5e9 + 2));
  EXPECT_THAT(trained.standard_deviation, ElementsAre(1, 2));
  EXPECT_TRUE(in_output_unit(targets, trained).equal(targets));
  trained.are_standardized = true;
  const at::Tensor outputs = in_output_unit(targets, trained);
  EXPECT_TRUE(outputs.equal(torch::tensor({{-1.0, -1.0}, {1.0, 1.0}}, at::kDouble)));
  EXPECT_TRUE(in_target_unit(outputs.to(at::kFloat), trained).equal(targets));
}

TEST(Targets, EqualNumbersHaveZeroDeviation) {
  const TrainedTargets trained = target_statistics(torch::full({7, 1}, 0.1, at::kDouble));
  EXPECT_EQ(trained.standard_deviation.front(), 0.0);
}

TEST(Targets, R2OfEqualTargetsIsUndefined) {
  const at::Tensor predictions = torch::tensor({{1.0}, {3.0}}, at::kDouble);
  const TargetErrors errors =
      target_errors(predictions, torch::full({2, 1}, 2.0, at::kDouble)).front();
  EXPECT_EQ(errors.mae, 1);
  EXPECT_EQ(errors.r2, std::nullopt);
  EXPECT_EQ(mean_errors({errors, {.mae = 2, .rmse = 3, .r2 = 0.5}}).r2, 0.5);
}

TEST(Targets, RowsCountAsOftenAsTheyAreDrawn) {
  const at::Tensor predictions = torch::tensor({{1.0}, {3.0}, {9.0}}, at::kDouble),
                   targets = torch::tensor({{2.0}, {3.0}, {5.0}}, at::kDouble);
  const std::vector<std::int32_t> times = {2, 0, 1};
  const TargetErrors drawn = target_errors(predictions, targets, times).front();
  const TargetErrors written = target_errors(torch::tensor({{1.0}, {1.0}, {9.0}}, at::kDouble),
                                             torch::tensor({{2.0}, {2.0}, {5.0}}, at::kDouble))
                                   .front();
  EXPECT_EQ(drawn.mae, written.mae);
  EXPECT_EQ(drawn.rmse, written.rmse);
  EXPECT_EQ(drawn.r2, written.r2);
}

TEST(Targets, AreStoredWithTheWeights) {
  DatasetDescription data = ages();
  data.targets = {.mean = {40.5}, .standard_deviation = {3.25}, .are_standardized = true};
  std::map<std::string, std::string> about = describe_data(data);
  const DatasetDescription read = described_data(about);
  EXPECT_EQ(read.targets.mean, data.targets.mean);
  EXPECT_EQ(read.targets.standard_deviation, data.targets.standard_deviation);
  EXPECT_TRUE(read.targets.are_standardized);
  for (const char* damaged :
       {R"({"mean": [1, 2], "standard_deviation": [1], "standardized": true})",
        R"({"mean": [1], "standard_deviation": [0], "standardized": true})",
        R"({"mean": ["1"], "standard_deviation": [1], "standardized": true})", "[]"}) {
    about["targets"] = damaged;
    EXPECT_THROW(described_data(about), std::runtime_error) << damaged;
  }
}

}  // namespace
}  // namespace stages
