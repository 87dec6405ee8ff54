#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

std::shared_ptr<const Checkpoint> train_novel(
    const std::string& options, RecordingContext& context,
    const std::map<std::int64_t, std::int64_t>& labels = {}) {
  const runner::Value value = stage_options("train/novel", options);
  runner::ConfigReader reader(value, "/train");
  const auto stage = kTrainNovel.create(reader);
  if (!stage) throw std::logic_error(stage.errors()[0].message);
  const auto data = std::make_shared<TinyDataset>(30);
  data->labels = labels;
  const runner::Outputs outputs =
      (*stage)->run(runner::Inputs({{"train", {data}},
                                    {"model", {std::make_shared<TinyModel>()}},
                                    {"memory", {std::make_shared<MemoryPolicy>()}}}),
                    context);
  return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}}).get<Checkpoint>("checkpoint");
}

TEST(TrainNovel, UnknownOptionIsRejected) {
  const runner::Value value = stage_options("train/novel", R"({"epoch": 3})");
  runner::ConfigReader reader(value, "/train");
  const auto stage = kTrainNovel.create(reader);
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors()[0].pointer, "/train/epoch");
}

TEST(TrainNovel, TemperatureChangesTheLoss) {
  RecordingContext warm, cold;
  train_novel(R"({"epochs": 1})", warm);
  train_novel(R"({"epochs": 1, "temperature": 10})", cold);
  EXPECT_NE(warm.values("train/epoch_loss"), cold.values("train/epoch_loss"));
}

TEST(TrainNovel, LossDecreasesAndTheCheckpointIsReturned) {
  RecordingContext context;
  const auto checkpoint = train_novel(R"({"epochs": 5, "batch_size": 10})", context);
  EXPECT_EQ(checkpoint->step, 15);
  EXPECT_EQ(checkpoint->classes.size(), 3);
  EXPECT_FALSE(checkpoint->network->is_training());
  const std::vector<double> losses = context.values("train/epoch_loss");
  ASSERT_EQ(losses.size(), 5);
  EXPECT_LT(losses.back(), losses.front());
}

TEST(TrainNovel, LabelOutsideTheClassesIsRejected) {
  RecordingContext context;
  try {
    train_novel("{}", context, {{7, 3}});
    FAIL();
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kLabelOutOfRange);
  }
}

}  // namespace
}  // namespace stages
