#include <filesystem>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

class TrainNone : public testing::Test {
 protected:
  runner::Inputs inputs() const {
    return runner::Inputs({{"train", {std::make_shared<TinyDataset>(12)}},
                           {"model", {model_}},
                           {"memory", {std::make_shared<MemoryPolicy>()}}},
                          {{"model", "model"}});
  }
  std::shared_ptr<const Model> model_ = std::make_shared<TinyModel>();
};

TEST_F(TrainNone, PassesOnAndSavesTheInitialWeights) {
  RecordingContext context;
  context.facts.seed = 4;
  const auto stage = stage_of(kTrainNone, nlohmann::ordered_json::object());
  const auto checkpoint =
      std::static_pointer_cast<const Checkpoint>(stage->run(inputs(), context).at("checkpoint"));
  const auto expected = model_->build(TinyDataset(12).describe(), 4);
  const NamedTensors saved = read_safetensors(checkpoint->file).tensors;
  for (const auto& [name, weight] : weights(*expected)) {
    EXPECT_TRUE(torch::equal(weights(*checkpoint->network).at(name).cpu(), weight)) << name;
    EXPECT_TRUE(torch::equal(saved.at(name), weight)) << name;
  }
  EXPECT_FALSE(checkpoint->network->is_training());
  EXPECT_EQ(checkpoint->classes.size(), 3u);
}

TEST_F(TrainNone, OnlyTheFirstRankBuildsAndSaves) {
  RecordingContext context;
  context.facts.ranks = {.rank = 1, .size = 2};
  const auto stage = stage_of(kTrainNone, nlohmann::ordered_json::object());
  const auto checkpoint =
      std::static_pointer_cast<const Checkpoint>(stage->run(inputs(), context).at("checkpoint"));
  for (const auto& [name, weight] : weights(*checkpoint->network)) EXPECT_TRUE(weight.is_meta());
  EXPECT_TRUE(std::filesystem::is_empty(context.node().folder));
}

TEST_F(TrainNone, PlansAnOutline) {
  PlanningContext context;
  const auto stage = stage_of(kTrainNone, nlohmann::ordered_json::object());
  const auto checkpoint = std::static_pointer_cast<const Checkpoint>(
      stage->plan(inputs(), context).value().at("checkpoint"));
  for (const auto& [name, weight] : weights(*checkpoint->network)) EXPECT_TRUE(weight.is_meta());
}

}  // namespace
}  // namespace stages
