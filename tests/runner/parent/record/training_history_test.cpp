#include "runner/parent/record/run_folder.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

NodeMetric metric(const std::string& name, double value, std::int64_t step) {
  return {"train", name, value, step};
}

TEST(TrainingHistory, HoldsTheMetricsOfEachEpoch) {
  TrainingHistory history(2);
  EXPECT_FALSE(history.see(metric("train/loss", 9, 1), 3));
  EXPECT_TRUE(history.see(metric("train/epoch_loss", 1.5, 4), 10));
  EXPECT_TRUE(history.see(metric("validation/loss", 1.25, 4), 10));
  EXPECT_TRUE(history.see(metric("validation/accuracy", 0.5, 4), 10.5));
  history.see(metric("train/epoch_loss", 1, 8), 14);
  history.see(metric("validation/loss", 1.5, 8), 14);
  history.see(metric("validation/accuracy", 0.75, 8), 14);
  EXPECT_EQ(
      history.to_json().dump(),
      R"({"train_losses":[1.5,1.0],"val_losses":[1.25,1.5],"val_accuracies":[0.5,0.75],"epoch_times":[8.5,3.5]})");
}

TEST(TrainingHistory, EpochWithoutValidationIsNull) {
  TrainingHistory history(0);
  history.see(metric("train/epoch_loss", 2, 4), 1);
  history.see(metric("train/epoch_loss", 1, 8), 2);
  history.see(metric("validation/loss", 1, 8), 2);
  EXPECT_EQ(
      history.to_json().dump(),
      R"({"train_losses":[2.0,1.0],"val_losses":[null,1.0],"val_accuracies":[],"epoch_times":[1.0,1.0]})");
}

TEST(TrainingHistory, ValidationWithinAnEpochIsNotRecorded) {
  TrainingHistory history(0);
  EXPECT_FALSE(history.see(metric("validation/loss", 1, 2), 1));
  history.see(metric("train/epoch_loss", 2, 4), 1);
  EXPECT_FALSE(history.see(metric("validation/loss", 1, 6), 1.5));
  EXPECT_EQ(history.to_json()["val_losses"].dump(), "[]");
}

TEST(TrainingHistory, NanLossIsWrittenAsAString) {
  TrainingHistory history(0);
  history.see(metric("train/epoch_loss", NAN, 4), 1);
  EXPECT_EQ(history.to_json()["train_losses"].dump(), R"(["nan"])");
}

}  // namespace
}  // namespace runner
