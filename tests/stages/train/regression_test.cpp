#include "stages/train/regression_loss.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/artifact/targets.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/train/mixing.h"
#include "stages/weights/weights.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/target_points.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/with_graphs.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// The stage with these options, run on TargetPoints.
struct RegressionRun {
  std::shared_ptr<Dataset> train = std::make_shared<TargetPoints>(40),
                           validation = std::make_shared<TargetPoints>(15);
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  RecordingContext context;

  runner::Inputs inputs() const {
    runner::Inputs::ByPort inputs = {
        {"train", {train}}, {"model", {std::make_shared<TinyModel>()}}, {"memory", {policy}}};
    if (validation) inputs["validation"] = {validation};
    return runner::Inputs(inputs, {{"model", "model"}});
  }
  std::shared_ptr<const Checkpoint> run(const std::string& options) {
    const runner::Outputs outputs = stage_of(kTrainRegression, options)->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint");
  }
};

constexpr const char* kBrief =
    R"({"epochs": 2, "batch_size": 8, "optimizer": {"learning_rate": 0.05}})";

TEST(Regression, LearnsTargetsWithDifferentScales) {
  RegressionRun training;
  training.run(R"({"epochs": 40, "batch_size": 8, "optimizer": {"learning_rate": 0.05},
                   "monitor": "mae"})");
  const auto& errors = training.context.values("validation/mae");
  const auto& explained = training.context.values("validation/r2");
  EXPECT_LT(errors.back(), 0.3 * errors.front());
  EXPECT_GT(explained.back(), 0.8);
  EXPECT_THAT(training.context.values("validation/rmse"), SizeIs(40));
}

TEST(Regression, TargetStatisticsAreSavedWithTheWeights) {
  RegressionRun training;
  training.validation = nullptr;
  const auto checkpoint = training.run(kBrief);
  const TrainedTargets wanted = target_statistics(TargetPoints(40).targets());
  EXPECT_EQ(checkpoint->targets.mean, wanted.mean);
  EXPECT_EQ(checkpoint->targets.standard_deviation, wanted.standard_deviation);
  EXPECT_TRUE(checkpoint->targets.are_standardized);
  EXPECT_THAT(checkpoint->classes, ElementsAre("age", "weight"));
}

TEST(Regression, MicroBatchesChangeOnlyRounding) {
  for (const char* kind : {"mse", "l1", "huber", "smooth_l1"}) {
    const std::string options =
        R"({"epochs": 1, "batch_size": 8, "mixup": 0.4, "loss": {"kind": ")" + std::string(kind) +
        R"("}, "optimizer": {"kind": "sgd", "learning_rate": 0.1}})";
    RegressionRun whole, cut;
    cut.policy->micro_batch = 3;
    const NamedTensors one = weights(*whole.run(options)->network),
                       other = weights(*cut.run(options)->network);
    for (const auto& [name, tensor] : one)
      EXPECT_TRUE(torch::allclose(tensor, other.at(name), /*rtol=*/1e-5, /*atol=*/1e-6))
          << kind << " " << name;
  }
}

TEST(Regression, PlanCountsTheValidationRows) {
  const auto needed = [](std::int64_t size) {
    RegressionRun training;
    training.validation = std::make_shared<TargetPoints>(size);
    PlanningContext planning;
    stage_of(kTrainRegression, kBrief)->plan(training.inputs(), planning);
    return planning.planned.value().needed;
  };
  // Predictions and targets of two targets in float64, as rows of batches and concatenated.
  EXPECT_EQ(needed(1008) - needed(1000), 8 * 2 * (2 + 2) * 8);
}

TEST(Regression, NonFiniteTargetIsRejectedWithItsSample) {
  RegressionRun training;
  const auto points = std::make_shared<TargetPoints>(40);
  points->broken = 5;
  points->tells_targets = false;
  training.train = points;
  EXPECT_REFUSED(training.run(R"({"standardize": false})"), kBadAnnotations, "", "not finite");
}

TEST(Regression, ClassesAreRejected) {
  RegressionRun training;
  training.train = std::make_shared<TinyDataset>(30);
  EXPECT_REFUSED(training.run(kBrief), kOptionConflict, "", "classes or labels");
}

TEST(Regression, OtherTrainingKindsRejectItsData) {
  const RegressionRun training;
  RecordingContext context;
  EXPECT_REFUSED(stage_of(kTrainSupervised, "{}")->run(training.inputs(), context), kOptionConflict,
                 "", "train.regression");
}

TEST(Regression, EqualTargetsCannotBeStandardized) {
  RegressionRun training;
  const auto points = std::make_shared<TargetPoints>(40);
  points->is_constant = true;
  training.train = points;
  EXPECT_REFUSED(training.run(kBrief), kTooFewSamples, "/standardize",
                 "all training samples have the same 'age', 40");
  training.validation = points;
  EXPECT_REFUSED(training.run(R"({"standardize": false, "monitor": "r2"})"), kTooFewSamples,
                 "/monitor", "r2 is undefined");
}

TEST(Regression, UnknownTargetsCannotBeStandardized) {
  RegressionRun training;
  const auto points = std::make_shared<TargetPoints>(40);
  points->tells_targets = false;
  training.train = points;
  EXPECT_REFUSED(training.run(kBrief), kOptionConflict, "/standardize", "standardize: false");
}

TEST(Regression, ValidationDataWithDifferentTargetsIsRejected) {
  RegressionRun training;
  const auto points = std::make_shared<TargetPoints>(15);
  points->names = {"weight", "age"};
  training.validation = points;
  EXPECT_REFUSED(training.run(kBrief), kOptionConflict, "", "'weight', 'age'");
}

TEST(Regression, CutMixMixesTargetsByArea) {
  const at::Tensor images = torch::stack({torch::zeros({3, 8, 8}), torch::ones({3, 8, 8})}),
                   targets = torch::tensor({{10.0}, {20.0}}, torch::kDouble);
  const Batch mixed = mix_samples(Batch({{"image", images}, {"target", targets}}, 2),
                                  {.cutmix_alpha = 1}, {.seed = 3, .step = 1});
  const double pasted = mixed["image"][0].mean().item<double>();
  EXPECT_NEAR(mixed["target"][0].item<double>(), 10 + 10 * pasted, 1e-5);
  EXPECT_FALSE(mixed.tensors().contains("partner_label"));
}

TEST(Regression, CudaGraphsGiveTheSameBits) {
  for (const char* more : {R"("standardize": true)", R"("mixup": 0.4, "loss": {"kind": "huber"})"})
    expect_same_bits_with_graphs<RegressionRun>(
        R"({"epochs": 1, "batch_size": 8, "optimizer": {"learning_rate": 0.05}, )" +
        std::string(more) + "}");
}

}  // namespace
}  // namespace stages
