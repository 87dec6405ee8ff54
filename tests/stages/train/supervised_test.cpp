#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/refused.h"
#include "tests/support/supervised_run.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/with_graphs.h"

namespace stages {
namespace {

TEST(Supervised, UsesTheStageNameOfTheModel) {
  SupervisedRun supervised;
  supervised.model_stage = "student";
  EXPECT_EQ(supervised.run("{}")->model_stage, "student");
  supervised.policy->precision = {Precision::kFp32, {{"model.0", Precision::kBf16}}};
  EXPECT_REFUSED(supervised.run("{}"), kUnknownKey, "/precision/model.0", "'model.0'", "'student'");
}

TEST(Supervised, DataWithoutSamplesIsRejected) {
  SupervisedRun supervised;
  supervised.train = std::make_shared<TinyDataset>(0);
  EXPECT_REFUSED(supervised.run("{}"), kTooFewSamples, "");
}

TEST(Supervised, EveryOptionOfTheSchemaIsRead) { EXPECT_TRUE(created(kTrainSupervised, "{}")); }

TEST(Supervised, ParameterGroupsAreApplied) {
  SupervisedRun supervised;
  supervised.run(R"({"epochs": 1, "optimizer": {"learning_rate": 0.05}, "parameter_groups": [
      {"match": "0", "name": "first", "learning_rate": 0.5, "learning_rate_factor": null, "weight_decay": null,
       "frozen": false}]})");
  EXPECT_EQ(supervised.context.values("train/learning_rate").front(), 0.05);
  EXPECT_EQ(supervised.context.values("train/learning_rate/first").front(), 0.5);
  EXPECT_REFUSED(supervised.run(R"({"learning_rate_factors": {"backbone": 0.1}})"), kOptionConflict,
                 "/learning_rate_factors/head", "'head'");
}

TEST(Supervised, WarmStartIsApplied) {
  SupervisedRun before, after;
  before.run(R"({"epochs": 20, "batch_size": 8, "optimizer": {"learning_rate": 0.05}})");
  after.run(R"({"epochs": 1, "optimizer": {"learning_rate": 1e-9}, "warm_start": ")" +
            before.context.node().folder.string() + "\"}");
  EXPECT_NEAR(after.context.values("validation/loss").front(),
              before.context.values("validation/loss").back(), 1e-3);
  EXPECT_REFUSED(after.run(R"({"warm_start": "nowhere"})"), kMissingWeights, "/warm_start",
                 "'nowhere'");
}

TEST(Supervised, FingerprintIncludesTheWarmStartWeights) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.safetensors", "one");
  const std::string options = R"({"warm_start": ")" + file + "\"}";
  EXPECT_EQ(SupervisedRun().stage("{}")->fingerprint(), "");
  const std::string before = SupervisedRun().stage(options)->fingerprint();
  const auto time = std::filesystem::last_write_time(file);
  folder.write("a.safetensors", "eno");
  std::filesystem::last_write_time(file, time);
  EXPECT_NE(SupervisedRun().stage(options)->fingerprint(), before);
  EXPECT_NE(before, "");
}

TEST(Supervised, PlateauIsApplied) {
  SupervisedRun supervised;
  supervised.run(
      R"({"epochs": 3, "batch_size": 8, "optimizer": {"learning_rate": 0.05}, "log_every": 1,
                     "schedule": {"kind": "plateau", "factor": 0.5, "patience": 0, "threshold": 0.99}})");
  const auto rates = supervised.context.values("train/learning_rate");
  EXPECT_EQ(rates.front(), 0.05);
  EXPECT_LT(rates.back(), 0.05);
}

TEST(Supervised, PlateauWithoutValidationDataIsRejected) {
  SupervisedRun supervised;
  supervised.validation = nullptr;
  EXPECT_REFUSED(supervised.run(R"({"schedule": {"kind": "plateau"}})"), kOptionConflict,
                 "/schedule", "plateau");
}

TEST(Supervised, TrainsAModelAndPassesItOn) {
  SupervisedRun supervised;
  const auto checkpoint =
      supervised.run(R"({"epochs": 20, "batch_size": 8, "optimizer": {"learning_rate": 0.05}})");
  EXPECT_GT(supervised.context.values("validation/accuracy").back(), 0.99);
  EXPECT_EQ(checkpoint->classes.size(), 3);
  EXPECT_EQ(checkpoint->model, supervised.model);
  EXPECT_FALSE(checkpoint->network->is_training());
  EXPECT_EQ(checkpoint->step, 4 * checkpoint->epoch);
  const Safetensors file = read_safetensors(checkpoint->file);
  for (const auto& [name, tensor] : weights(*checkpoint->network))
    EXPECT_TRUE(tensor.cpu().equal(file.tensors.at(name))) << name;
}

TEST(Supervised, PassesOnTrainedWeightsWithoutDataOrTraining) {
  const std::string options =
      R"({"epochs": 3, "batch_size": 8, "optimizer": {"learning_rate": 0.05}})";
  SupervisedRun before, after;
  const auto trained = before.run(options);
  after.train = after.validation = nullptr;
  after.context.facts.seed = 99;
  after.context.facts.trained = {before.context.node().folder / "checkpoints",
                                 runner::CheckpointSource::Choice::kKept};
  const auto checkpoint = after.run(options);
  EXPECT_TRUE(after.context.metrics.empty());
  EXPECT_EQ(checkpoint->classes, trained->classes);
  EXPECT_EQ(checkpoint->step, trained->step);
  EXPECT_EQ(checkpoint->file, trained->file);
  ASSERT_EQ(checkpoint->inputs.size(), 2u);
  EXPECT_EQ(checkpoint->inputs[0].shape, trained->inputs[0].shape);
  EXPECT_FALSE(checkpoint->network->is_training());
  const NamedTensors wanted = weights(*trained->network);
  for (const auto& [name, tensor] : weights(*checkpoint->network))
    EXPECT_TRUE(tensor.equal(wanted.at(name))) << name;
}

TEST(Supervised, AllOptimizersAndSchedulesTrain) {
  for (const char* optimizer : {R"({"kind": "sgd", "momentum": 0.9})", R"({"kind": "adam"})",
                                R"({"kind": "adamw", "amsgrad": true})"}) {
    for (const char* schedule :
         {R"({"kind": "constant"})", R"({"kind": "cosine"})",
          R"({"kind": "warmup_cosine", "warmup_steps": 2})", R"({"kind": "one_cycle"})"}) {
      SupervisedRun supervised;
      supervised.run(
          std::string(R"({"epochs": 3, "batch_size": 8, "log_every": 1, "optimizer": )") +
          optimizer + R"(, "schedule": )" + schedule + "}");
      EXPECT_LT(supervised.context.values("train/epoch_loss").back(),
                supervised.context.values("train/epoch_loss").front())
          << optimizer << schedule;
    }
  }
}

TEST(Supervised, AccumulationMatchesALargerBatch) {
  SupervisedRun accumulated, whole;
  // 30 samples: steps of 12, 12 and 6; the gradient of the last is divided by 6.
  const auto in_parts = accumulated.run(
      R"({"epochs": 3, "batch_size": 4, "gradient_accumulation_steps": 3, "optimizer": {"learning_rate": 0.05}})");
  whole.policy->micro_batch = 4;
  const auto at_once =
      whole.run(R"({"epochs": 3, "batch_size": 12, "optimizer": {"learning_rate": 0.05}})");
  EXPECT_EQ(in_parts->step, 9);
  const NamedTensors wanted = weights(*at_once->network);
  for (const auto& [name, tensor] : weights(*in_parts->network))
    EXPECT_TRUE(tensor.equal(wanted.at(name))) << name;
  EXPECT_THAT(accumulated.context.said, testing::Contains("Effective batch size: 12 (3 x 4)"));
}

TEST(Supervised, AccumulationWithANumericMicroBatchIsRejected) {
  SupervisedRun supervised;
  supervised.policy->micro_batch = 4;
  EXPECT_REFUSED(supervised.run(R"({"gradient_accumulation_steps": 3})"), kOptionConflict,
                 "/gradient_accumulation_steps", "3", "micro_batch 4");
}

TEST(Supervised, AccumulationIsAppliedEvenIfLayersMixSamples) {
  SupervisedRun supervised;
  supervised.model->mixes = true;
  EXPECT_NO_THROW(
      supervised.run(R"({"epochs": 1, "batch_size": 4, "gradient_accumulation_steps": 3})"));
}

TEST(Supervised, LabelSmoothingRaisesTheLossOfCertainPredictions) {
  SupervisedRun plain, smoothed;
  plain.run(R"({"epochs": 20, "batch_size": 8, "optimizer": {"learning_rate": 0.05}})");
  smoothed.run(
      R"({"epochs": 20, "batch_size": 8, "label_smoothing": 0.3, "optimizer": {"learning_rate": 0.05}})");
  EXPECT_GT(smoothed.context.values("train/epoch_loss").back(),
            plain.context.values("train/epoch_loss").back() + 0.2);
}

TEST(Supervised, BestEpochCanBeChosenByAccuracy) {
  SupervisedRun supervised;
  const auto checkpoint = supervised.run(
      R"({"epochs": 6, "batch_size": 8, "monitor": "accuracy", "optimizer": {"learning_rate": 0.05}})");
  const std::vector<double> accuracies = supervised.context.values("validation/accuracy");
  const auto best = std::ranges::max_element(accuracies) - accuracies.begin() + 1;
  EXPECT_EQ(checkpoint->epoch, best);
}

TEST(Supervised, CalibrationIsSavedWithTheWeights) {
  SupervisedRun plain, fitted;
  const auto before = plain.run("{}");
  const auto after = fitted.run(
      R"({"calibration": {"temperature": true, "cut_points": true, "sensitivity": null}})");
  EXPECT_EQ(before->validation.count("temperature"), 0u);
  const FittedDecision decision = decision_of(after->validation, std::ssize(after->classes));
  EXPECT_NE(decision.temperature, 1);
  EXPECT_EQ(decision.cut_points.size(), after->classes.size() - 1);
  EXPECT_EQ(plain.context.values("validation/loss"), fitted.context.values("validation/loss"));
  EXPECT_EQ(fitted.context.values("validation/temperature").size(), 0u);
}

TEST(Supervised, CalibrationNeedsValidationData) {
  SupervisedRun supervised;
  supervised.validation = nullptr;
  EXPECT_REFUSED(
      supervised.run(
          R"({"calibration": {"temperature": true, "cut_points": false, "sensitivity": null}})"),
      kTooFewSamples, "/calibration", "validation data");
}

TEST(Supervised, SensitivityNeedsTwoClasses) {
  SupervisedRun supervised;
  EXPECT_REFUSED(
      supervised.run(
          R"({"calibration": {"temperature": false, "cut_points": false, "sensitivity": 0.9}})"),
      kOptionConflict, "/calibration/sensitivity", "two classes");
}

TEST(Supervised, LabelOutsideTheClassesIsReported) {
  SupervisedRun supervised;
  supervised.train->relabeled = {{4, 3}};
  EXPECT_REFUSED(supervised.run("{}"), kLabelOutOfRange, "", "'point4'", "label 3", "3 classes");
  supervised.train->relabeled = {{4, -100}};  // which torch would silently ignore
  EXPECT_REFUSED(supervised.run("{}"), kLabelOutOfRange, "", "'point4'", "label -100");
}

TEST(Supervised, ValidationOnDifferentClassesIsRejectedBeforeTraining) {
  SupervisedRun supervised;
  supervised.validation = std::make_shared<TinyDataset>(12, 4);
  EXPECT_REFUSED(supervised.run("{}"), kLabelOutOfRange, "", "'class3'");
  supervised.validation = std::make_shared<TinyDataset>(12, 3);
  supervised.validation->class_names = {"class1", "class0"};
  EXPECT_REFUSED(supervised.run("{}"), kLabelOutOfRange, "", "validation data");
  EXPECT_TRUE(supervised.context.all_progress.empty());
}

TEST(Supervised, DataWithoutClassesIsRejected) {
  SupervisedRun supervised;
  supervised.train = std::make_shared<TinyDataset>(12, 0);
  EXPECT_REFUSED(supervised.run("{}"), kLabelOutOfRange, "", "no classes");
}

TEST(Supervised, BatchIsNotSplitIfTheModelMixesSamples) {
  SupervisedRun supervised;
  supervised.model->mixes = true;
  supervised.policy->micro_batch = 4;
  EXPECT_REFUSED(supervised.run("{}"), kOptionConflict, "/batch_size", "micro_batch 4",
                 "BatchNorm");
}

struct CutRun : SupervisedRun {
  CutRun() { policy->micro_batch = 3; }
};

TEST(Supervised, CudaGraphsGiveTheSameBits) {
  for (const char* more :
       {R"("mixup": 0.4)", R"("loss": {"kind": "focal"})", R"("class_weights": [1, 4, 0.5])",
        R"("class_weights": [1, 4, 0], "label_smoothing": 0.1)"})
    expect_same_bits_with_graphs<SupervisedRun>(R"({"epochs": 3, "batch_size": 8, )" +
                                                std::string(more) + "}");
  expect_same_bits_with_graphs<CutRun>(
      R"({"epochs": 3, "batch_size": 8, "class_weights": [1, 4, 0.5]})");
}

}  // namespace
}  // namespace stages
