#include <cmath>

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/label_thresholds.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/train/multi_label_loss.h"
#include "stages/weights/weights.h"
#include "tests/support/label_points.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/with_graphs.h"

namespace stages {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// The stage with these options, run on LabelPoints.
struct MultiLabelRun {
  std::shared_ptr<Dataset> train = std::make_shared<LabelPoints>(40),
                           validation = std::make_shared<LabelPoints>(15);
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  RecordingContext context;

  runner::Inputs inputs() const {
    runner::Inputs::ByPort inputs = {
        {"train", {train}}, {"model", {std::make_shared<TinyModel>()}}, {"memory", {policy}}};
    if (validation) inputs["validation"] = {validation};
    return runner::Inputs(inputs, {{"model", "model"}});
  }
  std::shared_ptr<const Checkpoint> run(const std::string& options) {
    const runner::Outputs outputs = stage_of(kTrainMultiLabel, options)->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint");
  }
};

constexpr const char* kShort =
    R"({"epochs": 2, "batch_size": 8, "optimizer": {"learning_rate": 0.05}})";

TEST(MultiLabel, LearnsSeveralLabels) {
  MultiLabelRun training;
  const auto checkpoint = training.run(
      R"({"epochs": 30, "batch_size": 8, "optimizer": {"learning_rate": 0.05},
          "monitor": "mean_average_precision"})");
  const auto& precisions = training.context.values("validation/mean_average_precision");
  EXPECT_GT(precisions.back(), 0.9);
  EXPECT_GT(precisions.back(), precisions.front());
}

TEST(MultiLabel, ThresholdsAreSavedWithTheWeightsButAreNotMetrics) {
  MultiLabelRun training;
  const auto checkpoint = training.run(kShort);
  EXPECT_THAT(thresholds_of(checkpoint->validation, 3), SizeIs(3));
  EXPECT_THAT(training.context.values("validation/threshold/0"), IsEmpty());
  MultiLabelRun without;
  without.validation = nullptr;
  EXPECT_THAT(thresholds_of(without.run(kShort)->validation, 3), IsEmpty());
}

TEST(MultiLabel, MicroBatchesChangeOnlyRounding) {
  for (const char* kind : {"binary_cross_entropy", "focal", "asymmetric"}) {
    const std::string options = R"({"epochs": 1, "batch_size": 8, "loss": {"kind": ")" +
                                std::string(kind) +
                                R"("}, "optimizer": {"kind": "sgd", "learning_rate": 0.1}})";
    MultiLabelRun whole, cut;
    cut.policy->micro_batch = 3;
    const NamedTensors one = weights(*whole.run(options)->network),
                       other = weights(*cut.run(options)->network);
    for (const auto& [name, tensor] : one)
      EXPECT_TRUE(torch::allclose(tensor, other.at(name), /*rtol=*/1e-5, /*atol=*/1e-6))
          << kind << " " << name;
  }
}

TEST(MultiLabel, PlanCountsTheValidationRows) {
  const auto needed = [](std::int64_t size) {
    MultiLabelRun training;
    training.validation = std::make_shared<LabelPoints>(size);
    PlanningContext planning;
    stage_of(kTrainMultiLabel, kShort)->plan(training.inputs(), planning);
    return planning.planned.value().needed;
  };
  // Logits and labels of three classes in float32, as rows of batches and concatenated.
  EXPECT_EQ(needed(1008) - needed(1000), 8 * 2 * (3 + 3) * 4);
}

TEST(MultiLabel, UnknownMarkIsRejectedWithItsSample) {
  MultiLabelRun training;
  const auto points = std::make_shared<LabelPoints>(40);
  points->broken = 5;
  training.train = points;
  EXPECT_REFUSED(training.run(kShort), kLabelOutOfRange, "", "neither 1");
}

TEST(MultiLabel, SingleLabelDataIsRejected) {
  MultiLabelRun training;
  training.train = std::make_shared<TinyDataset>(30);
  EXPECT_REFUSED(training.run(kShort), kOptionConflict, "", "one class per sample");
}

TEST(MultiLabel, OtherTrainingKindsRejectItsData) {
  const MultiLabelRun training;
  RecordingContext context;
  EXPECT_REFUSED(stage_of(kTrainSupervised, "{}")->run(training.inputs(), context), kOptionConflict,
                 "", "train.multi_label");
}

TEST(MultiLabel, LabelWithoutTrainingSamplesIsReported) {
  MultiLabelRun training;
  const auto points = std::make_shared<LabelPoints>(40);
  points->has_no_labels = true;
  training.train = points;
  training.run(kShort);
  EXPECT_THAT(training.context.said, Contains(HasSubstr("'right', 'upper', 'middle'")));
}

TEST(MultiLabel, UnlabeledValidationCannotMonitorPrecision) {
  MultiLabelRun training;
  const auto points = std::make_shared<LabelPoints>(15);
  points->has_no_labels = true;
  training.validation = points;
  EXPECT_REFUSED(training.run(R"({"monitor": "mean_average_precision"})"), kTooFewSamples,
                 "/monitor");
  training.run(kShort);  // the loss can be monitored
}

TEST(PositiveWeights, BalancedWeightIsNegativesDividedByPositives) {
  const LabelPoints points(40);
  const auto counts = points.label_counts();
  const at::Tensor weights = positive_weights(BalancedWeights{}, points);
  for (std::int64_t label = 0; label < 3; ++label) {
    const auto count = static_cast<double>(counts[static_cast<std::size_t>(label)]);
    EXPECT_FLOAT_EQ(weights[label].item<float>(), static_cast<float>((40 - count) / count));
  }
}

TEST(PositiveWeights, MustMatchTheLabels) {
  LabelPoints points(40);
  const std::string at = "/loss/pos_weight";
  EXPECT_REFUSED(positive_weights(std::vector<double>{1, 2}, points), kOptionConflict, at,
                 "2 numbers for 3 labels");
  EXPECT_REFUSED(positive_weights(std::map<std::string, double>{{"uper", 2}}, points),
                 kOptionConflict, at, "'uper'");
  points.tells_counts = false;
  EXPECT_REFUSED(positive_weights(BalancedWeights{}, points), kOptionConflict, at, "number");
  points.tells_counts = points.has_no_labels = true;
  EXPECT_REFUSED(positive_weights(BalancedWeights{}, points), kOptionConflict, at, "'right'");
}

TEST(MultiLabelLoss, SmoothingMovesBothTargetsToOneHalf) {
  const at::Tensor logits = torch::tensor({{0.5, -2.0}}, torch::kDouble),
                   smooth = torch::tensor({{0.9, 0.1}}, torch::kDouble);
  const at::Tensor wanted = torch::binary_cross_entropy_with_logits(logits, smooth);
  const at::Tensor loss =
      multi_label_loss_sum(logits, torch::tensor({{1, 0}}), LabelEntropy{0.2, {}});
  EXPECT_DOUBLE_EQ(loss.item<double>(), wanted.item<double>());
}

TEST(MultiLabelLoss, GradientsAreFiniteForCertainPredictions) {
  const at::Tensor labels = torch::tensor({{1.0, 0.0, 1.0, 0.0}});
  for (const double gamma : {0.0, 0.5, 2.0}) {
    for (const MultiLabelLoss& loss :
         {MultiLabelLoss(LabelFocal{0.25, gamma}), MultiLabelLoss(AsymmetricLoss{gamma, gamma, 0}),
          MultiLabelLoss(AsymmetricLoss{gamma, gamma, 0.05})}) {
      const at::Tensor logits =
          torch::tensor({{200.0, 200.0, -200.0, -200.0}}, torch::kFloat).requires_grad_();
      multi_label_loss_sum(logits, labels, loss).backward();
      EXPECT_TRUE(logits.grad().isfinite().all().item<bool>()) << name_of(loss) << " " << gamma;
    }
  }
}

TEST(MultiLabel, CudaGraphsGiveTheSameBits) {
  for (const char* loss :
       {R"("kind": "binary_cross_entropy", "pos_weight": [1, 2, 3])", R"("kind": "asymmetric")"})
    expect_same_bits_with_graphs<MultiLabelRun>(
        R"({"epochs": 1, "batch_size": 8, "optimizer": {"learning_rate": 0.05}, "loss": {)" +
        std::string(loss) + "}}");
}

}  // namespace
}  // namespace stages
