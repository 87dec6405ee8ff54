#include <algorithm>
#include <new>
#include <utility>

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/machine/counting_allocator.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_budget.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/tower_planning.h"
#include "tests/support/with_graphs.h"

namespace stages {
namespace {

/// The stage with these options, run on TinyDatasets.
struct SupervisedRun {
  std::shared_ptr<TinyDataset> train = std::make_shared<TinyDataset>(30),
                               validation = std::make_shared<TinyDataset>(12);
  std::shared_ptr<TinyModel> model = std::make_shared<TinyModel>();
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  std::shared_ptr<Model> greedy;    // replaces `model`
  std::shared_ptr<Dataset> images;  // replaces `train`
  std::string model_stage = "model";
  RecordingContext context;

  std::unique_ptr<runner::Stage> stage(const std::string& options) const {
    return stage_of(kTrainSupervised, options);
  }
  runner::Inputs inputs() const {
    runner::Inputs::ByPort inputs = {{"model", {greedy ? greedy : std::shared_ptr<Model>(model)}},
                                     {"memory", {policy}}};
    if (images) inputs["train"] = {images};
    else if (train) inputs["train"] = {train};
    if (validation) inputs["validation"] = {validation};
    return runner::Inputs(inputs, {{"model", model_stage}});
  }
  std::shared_ptr<const Checkpoint> run(const std::string& options) {
    const runner::Outputs outputs = stage(options)->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint");
  }
  /// Returns the stage's plan for a budget of `budget` bytes.
  runner::MemoryPlan plan(const std::string& options, std::int64_t budget) const {
    PlanningContext planning;
    planning.asked.budget = {"a test", budget};
    stage(options)->plan(inputs(), planning);
    return planning.planned.value();
  }
  /// Plans and then runs, as in a real run.
  void run_planned(const std::string& options) {
    PlanningContext planning;
    const auto both = stage(options);
    both->plan(inputs(), planning);
    both->run(inputs(), context);
  }
};

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

/// Wraps a model and runs out of memory if `fails` returns true.
class GreedyModel final : public Model {
 public:
  GreedyModel(std::shared_ptr<const Model> inner, std::function<bool(const at::Tensor&)> fails)
      : fails(std::move(fails)), inner_(std::move(inner)) {}
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    return inner_->build(data, seed);
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return inner_->outline(data);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    if (fails(inputs.at("image"))) throw std::bad_alloc();
    return inner_->forward(network, inputs);
  }
  bool mixes_samples() const override { return false; }

  std::function<bool(const at::Tensor&)> fails;

 private:
  const std::shared_ptr<const Model> inner_;
};

TEST(Supervised, OutOfMemoryRepeatsThePlanSearch) {
  const auto with_failures = [](int failures) {
    SupervisedRun supervised;
    supervised.greedy = std::make_shared<GreedyModel>(
        std::make_shared<ClipVision>(planned_tower(4)),
        [failures](const at::Tensor& image) mutable {  // except in dry runs
          return !image.is_meta() && failures-- > 0;
        });
    supervised.images = std::make_shared<NoiseImages>(48, 32);
    supervised.validation = nullptr;
    supervised.policy->pointer = "/memory";
    supervised.policy->allow = Allow::kExact;
    supervised.policy->checkpointing_is_open = true;
    supervised.policy->recovery.max_retries = 3;
    return supervised;
  };
  constexpr const char* kOptions =
      R"({"epochs": 1, "batch_size": 16, "optimizer": {"learning_rate": 0.01}})";
  SupervisedRun failing = with_failures(2);
  const runner::MemoryPlan whole = failing.plan(kOptions, std::int64_t{1} << 40);
  ASSERT_EQ(runner::choice_text(whole), "chosen: the whole batch at once");
  const runner::MemoryPlan less = failing.plan(
      kOptions, static_cast<std::int64_t>(kShrunk * static_cast<double>(whole.needed)));
  // A recovery without a search tries half the batch, or all blocks recomputed.
  ASSERT_EQ(less.step.at("micro_batch"), 0);
  const std::size_t recomputed = less.step.at("activation_checkpointing").size();
  ASSERT_TRUE(less.step.at("activation_checkpointing").is_array() && recomputed > 0);

  failing.run_planned(kOptions);
  ASSERT_EQ(failing.context.recoveries.size(), 2);
  EXPECT_EQ(failing.context.recoveries[0].to, "the whole batch of 16");
  EXPECT_EQ(failing.context.recoveries[1].to,
            "the whole batch of 16, " + std::to_string(recomputed) +
                (recomputed == 1 ? " module recomputed" : " modules recomputed"));
  SupervisedRun undisturbed = with_failures(0);
  undisturbed.run_planned(kOptions);
  EXPECT_EQ(failing.context.values("train/loss"), undisturbed.context.values("train/loss"));
}

TEST(Supervised, LegacyModeHalvesTheBatchSizeAndRestarts) {
  SupervisedRun supervised;
  supervised.validation = nullptr;
  std::int64_t fitting = 4;
  const auto greedy = std::make_shared<GreedyModel>(
      std::make_shared<TinyModel>(),
      [&](const at::Tensor& image) { return image.size(0) > fitting; });
  supervised.greedy = greedy;
  supervised.policy->recovery = {.max_retries = 3, .halves_batch = true};
  supervised.run(
      R"({"epochs": 1, "batch_size": 16, "log_every": 1, "optimizer": {"learning_rate": 0.05}})");
  EXPECT_THAT(supervised.context.said.front(),
              testing::HasSubstr("the batch itself is halved and training starts over from "
                                 "the current weights, which changes the training"));
  EXPECT_THAT(
      supervised.context.said,
      testing::IsSupersetOf(
          {"out of memory: batch_size 8 instead of 16, restarting at the first epoch, retry 1",
           "out of memory: batch_size 4 instead of 8, restarting at the first epoch, retry 2"}));
  EXPECT_EQ(supervised.context.steps("train/loss").back(), 8) << "30 samples, 4 at a time";
  EXPECT_EQ(supervised.context.resumed_at, 0) << "metrics of the failed attempts are dropped";
  ASSERT_EQ(supervised.context.recoveries.size(), 2);
  EXPECT_EQ(supervised.context.recoveries[1].from, "batch_size 8");
  EXPECT_EQ(supervised.context.recoveries[1].to, "batch_size 4");

  SupervisedRun gives_up;
  fitting = 2;
  gives_up.validation = nullptr;
  gives_up.greedy = greedy;
  gives_up.policy->recovery = {.max_retries = 3, .halves_batch = true};
  EXPECT_REFUSED(gives_up.run(R"({"batch_size": 16})"), kOutOfMemory, "", "step 1");
  EXPECT_EQ(gives_up.context.recoveries.size(), 2) << "one retry fewer than max_retries";
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

/// Data that declares its classes to be in ascending order.
struct GradedRun : SupervisedRun {
  GradedRun() {
    for (const auto& part : {train, validation}) part->class_names = {"0", "1", "2"};
  }
};

/// Options of a training run with CORN.
std::string corn(const std::string& more) {
  return R"({"loss": {"kind": "corn", "order": null}, "optimizer": {"learning_rate": 0.05}, )" +
         more + "}";
}

TEST(Supervised, OrdinalHeadLearnsAndIsSaved) {
  GradedRun supervised;
  const auto checkpoint = supervised.run(corn(R"("epochs": 40, "batch_size": 8)"));
  EXPECT_EQ(checkpoint->ordinal, OrdinalHead::kCorn);
  EXPECT_EQ(logits_for(checkpoint->trained_on(1)), 2);
  EXPECT_EQ(supervised.context.values("validation/accuracy").back(), 1);
  EXPECT_EQ(decision_of(*checkpoint).ordinal, OrdinalHead::kCorn);
  EXPECT_EQ(SupervisedRun().run("{}")->ordinal, OrdinalHead::kNone);
}

// The binary tasks of CORN have different numbers of samples in each micro-batch.
TEST(Supervised, OrdinalLossIsAveragedOverTheWholeBatch) {
  GradedRun whole, cut;
  cut.policy->micro_batch = 5;
  const std::string options = corn(R"("epochs": 1, "batch_size": 30)");
  whole.run(options);
  cut.run(options);
  EXPECT_NEAR(whole.context.values("train/loss").front(), cut.context.values("train/loss").front(),
              1e-6);
  EXPECT_NEAR(whole.context.values("validation/loss").front(),
              cut.context.values("validation/loss").front(), 1e-5);
}

TEST(Supervised, OrdinalCalibrationUsesClassProbabilities) {
  GradedRun supervised;
  const auto checkpoint = supervised.run(
      corn(R"("calibration": {"temperature": true, "cut_points": true, "sensitivity": null})"));
  EXPECT_EQ(decision_of(*checkpoint).cut_points.size(), 2U);
}

TEST(Supervised, UnorderedClassesAndModelsWithoutAHeadAreRejected) {
  SupervisedRun supervised;
  EXPECT_REFUSED(supervised.run(corn(R"("epochs": 1)")), kOptionConflict, "/loss/order",
                 "'class0'");
  GradedRun graded;
  EXPECT_REFUSED(
      graded.run(
          R"({"loss": {"kind": "coral", "order": null, "importance_weights": null}, "epochs": 1})"),
      kOptionConflict, "/loss/kind", "share their weights", "corn");
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

struct CoralRun : GradedRun {
  CoralRun() { model->has_coral_head = true; }
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

TEST(Supervised, CudaGraphsGiveTheSameBitsForOrdinalLosses) {
  expect_same_bits_with_graphs<GradedRun>(corn(R"("epochs": 3, "batch_size": 8)"));
  expect_same_bits_with_graphs<CoralRun>(
      R"({"loss": {"kind": "coral", "order": null, "importance_weights": [1, 3]}, "epochs": 3,
          "batch_size": 8})");
}

}  // namespace
}  // namespace stages
