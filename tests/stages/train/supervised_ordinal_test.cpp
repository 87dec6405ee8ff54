#include <string>

#include <gmock/gmock.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/fitted_decision.h"
#include "tests/support/refused.h"
#include "tests/support/supervised_run.h"
#include "tests/support/with_graphs.h"

// Supervised training on classes in ascending order.

namespace stages {
namespace {

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

struct CoralRun : GradedRun {
  CoralRun() { model->has_coral_head = true; }
};

TEST(Supervised, CudaGraphsGiveTheSameBitsForOrdinalLosses) {
  expect_same_bits_with_graphs<GradedRun>(corn(R"("epochs": 3, "batch_size": 8)"));
  expect_same_bits_with_graphs<CoralRun>(
      R"({"loss": {"kind": "coral", "order": null, "importance_weights": [1, 3]}, "epochs": 3,
          "batch_size": 8})");
}

}  // namespace
}  // namespace stages
