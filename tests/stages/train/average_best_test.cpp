#include <filesystem>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_layout.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/checkpoint/checkpoints.h"
#include "stages/weights/interpolated_weights.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

/// A training run with a monitored loss that falls, or rises, with every epoch.
struct AveragedTraining : TinyTraining {
  explicit AveragedTraining(std::int64_t epochs = 2) {
    options.average_best = epochs;
    options.checkpoint.keep_best = epochs;
    options.checkpoint.keep_last = 10;
  }
  fs::path checkpoints() const { return runner::NodeLayout(context.facts.folder).checkpoints(); }
  Checkpoints opened() const { return Checkpoints(checkpoints(), {}); }
  bool has_average() const { return fs::exists(checkpoints() / "average"); }
  /// Returns the equal average of the weights of the two epochs with the lowest losses.
  NamedTensors expected() const {
    const std::vector<fs::path> best = opened().best(2);
    return interpolated_weights(read_checkpoint(best.at(0)).model,
                                read_checkpoint(best.at(1)).model, 0.5);
  }
  /// Follows the order of flat_weights(), which is not the order in a file.
  at::Tensor flat(const NamedTensors& tensors) const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : weights(*network)) all.push_back(tensors.at(name).flatten());
    return torch::cat(all);
  }
};

TEST(AverageBest, ResultIsTheAverageIfItIsBetter) {
  AveragedTraining training;
  // Steps this large jump over the minimum, which lies between the epochs.
  training.options.optimizer = adamw(0.5);
  training.options.epochs = 6;
  const TrainingResult result = training.run();
  const bool is_average = training.has_average();
  const double best = *read_checkpoint_state(training.opened().best(1).at(0)).metric;
  if (is_average) {
    EXPECT_EQ(result.file, training.checkpoints() / "average" / "model.safetensors");
    EXPECT_TRUE(torch::equal(training.flat_weights(), training.flat(training.expected())));
    EXPECT_LT(result.validation.at("loss"), best);
  } else {
    EXPECT_EQ(result.validation.at("loss"), best);
  }
  EXPECT_THAT(
      training.context.said,
      testing::Contains(testing::AllOf(
          testing::HasSubstr("the average of epochs "),
          testing::EndsWith(is_average ? "the average is kept" : "the best epoch is kept"))));
}

TEST(AverageBest, BestEpochIsLoadedIfTheAverageIsWorse) {
  AveragedTraining training;
  training.options.optimizer = adamw(1e-4);  // every epoch is better than the previous one
  const TrainingResult result = training.run();
  EXPECT_FALSE(training.has_average());
  EXPECT_EQ(result.epoch, 4);
  EXPECT_TRUE(torch::equal(training.flat_weights(),
                           training.flat(read_checkpoint(result.file.parent_path()).model)));
}

TEST(AverageBest, OneEpochIsNotAveraged) {
  AveragedTraining training;
  training.options.epochs = 1;
  training.run();
  EXPECT_FALSE(training.has_average());
  EXPECT_THAT(training.context.said,
              testing::Contains(testing::HasSubstr("there is nothing to average")));
}

TEST(AverageBest, NeedsValidation) {
  AveragedTraining training;
  training.validation = nullptr;
  EXPECT_THAT(training.error(), testing::HasSubstr("average_best needs validation data"));
}

}  // namespace
}  // namespace stages
