#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/forwarded_dataset.h"
#include "tests/support/prototype_model.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

/// Counts how often the samples of a dataset are read, by training and otherwise.
struct Reads {
  int by_training = 0, otherwise = 0;
};

/// A TinyDataset that knows whether training reads it.
class WatchfulDataset final : public ForwardedDataset, public AugmentedDataset {
 public:
  explicit WatchfulDataset(std::shared_ptr<Reads> reads, bool trains = false)
      : ForwardedDataset(std::make_shared<TinyDataset>(48, 4)),
        reads_(std::move(reads)),
        trains_(trains) {}
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    ++(trains_ ? reads_->by_training : reads_->otherwise);
    return inner_->sample(epoch, index);
  }
  std::shared_ptr<const Dataset> for_training() const override {
    return std::make_shared<WatchfulDataset>(reads_, /*trains=*/true);
  }

 private:
  const std::shared_ptr<Reads> reads_;
  const bool trains_;
};

/// Trains for one epoch with validation on the same data.
Reads reads_of(const runner::StageKind& kind, const std::string& options,
               const std::shared_ptr<Model>& model) {
  const auto stage = stage_of(kind, options);
  auto reads = std::make_shared<Reads>();
  const auto data = std::make_shared<WatchfulDataset>(reads);
  const auto policy = std::make_shared<MemoryPolicy>();
  policy->pointer = "/memory";
  RecordingContext context;
  stage->run(
      runner::Inputs(
          {{"model", {model}}, {"memory", {policy}}, {"train", {data}}, {"validation", {data}}},
          {{"model", "model"}}),
      context);
  return *reads;
}

TEST(TrainingView, OnlyTrainingReadsTheTrainingView) {
  const Reads supervised =
      reads_of(kTrainSupervised, R"({"epochs": 1})", std::make_shared<TinyModel>());
  EXPECT_EQ(supervised.by_training, 48);
  EXPECT_EQ(supervised.otherwise, 48);
  const Reads binary =
      reads_of(kTrainBinary,
               R"({"epochs": 1, "classes": [1, 3], "learning_rate_factors": {"backbone": 1.0}})",
               std::make_shared<TinyModel>());
  EXPECT_EQ(binary.by_training, 24);
  EXPECT_EQ(binary.otherwise, 24);
  const Reads balanced = reads_of(
      kTrainBinary,
      R"({"epochs": 1, "classes": [1, 3], "learning_rate_factors": {"backbone": 1.0}, "sampling": "balanced"})",
      std::make_shared<TinyModel>());
  EXPECT_EQ(balanced.by_training, 24);
  EXPECT_EQ(balanced.otherwise, 24);
  const Reads episodic =
      reads_of(kTrainEpisodic,
               R"({"epochs": 1, "ways": 3, "shots": 2, "queries": 3, "episodes": 4,
                                      "validation_episodes": 2})",
               std::make_shared<PrototypeModel>());
  EXPECT_EQ(episodic.by_training, 4 * 15);
  EXPECT_EQ(episodic.otherwise, 2 * 15);
}

}  // namespace
}  // namespace stages
