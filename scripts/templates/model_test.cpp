#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

std::shared_ptr<const Model> novel_model(const std::string& options = "{}") {
  const runner::Value value = stage_options("model/novel", options);
  runner::ConfigReader reader(value, "/model");
  const auto stage = kModelNovel.create(reader);
  if (!stage) throw std::logic_error(stage.errors()[0].message);
  RecordingContext context;
  return runner::Inputs({{"model", {(*stage)->run(runner::Inputs({}), context).at("model")}}})
      .get<Model>("model");
}

TEST(ModelNovel, UnknownOptionIsRejected) {
  const runner::Value value = stage_options("model/novel", R"({"hiden_size": 3})");
  runner::ConfigReader reader(value, "/model");
  const auto stage = kModelNovel.create(reader);
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors()[0].pointer, "/model/hiden_size");
}

TEST(ModelNovel, ReturnsALogitForEachClass) {
  const auto model = novel_model(R"({"hidden_size": 5})");
  const auto network = model->build(TinyDataset(6, 4).describe(), 1);
  const at::Tensor logits = model->forward(*network, {{"image", torch::ones({3, 2})}}).at("logits");
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(network->parameters()[0].size(0), 5);
}

TEST(ModelNovel, SeedDeterminesTheWeights) {
  const DatasetDescription data = TinyDataset(6).describe();
  const auto first_weight = [&](std::uint64_t seed) {
    return novel_model()->build(data, seed)->parameters()[0];
  };
  EXPECT_TRUE(first_weight(1).equal(first_weight(1)));
  EXPECT_FALSE(first_weight(1).equal(first_weight(2)));
}

TEST(ModelNovel, OutlineHasTheSameShapesWithoutValues) {
  const DatasetDescription data = TinyDataset(6).describe();
  const auto network = novel_model()->build(data, 1), outline = novel_model()->outline(data);
  const auto expected = network->named_parameters(), found = outline->named_parameters();
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& item : expected) {
    EXPECT_TRUE(found[item.key()].is_meta());
    EXPECT_EQ(found[item.key()].sizes(), item.value().sizes());
  }
}

}  // namespace
}  // namespace stages
