// Schemas say what kinds do to a batch, so that a recipe is checked without LibTorch; here they are held to the code.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/graph/legality.h"
#include "runner/cli/prepare.h"
#include "runner/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/stages.h"
#include "tests/support/planning_context.h"
#include "tests/support/small_backbone.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

/// The model that a kind puts out by its defaults and `options`.
std::shared_ptr<const Model> model_of(const runner::StageKind& kind, const std::string& schema,
                                      const std::string& options) {
  const runner::Value value = stage_options(schema, options);
  runner::ConfigReader reader(value, "/model");
  auto stage = kind.create(reader);
  if (!stage) return nullptr;
  PlanningContext context;
  const auto outputs = (*stage)->run(runner::Inputs({}), context);
  return std::static_pointer_cast<const Model>(outputs.at("model"));
}

TEST(Declared, ModelsMixSamplesAsTheirSchemasSay) {
  const runner::SchemaSet schemas = runner::shipped_schemas();
  const std::string backbone = Json{{"backbone", small()}}.dump();
  const auto clip = model_of(kModelClipVision, "model/clip_vision",
                             R"({"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
                                 "num_attention_heads": 4, "patch_size": 4})");
  ASSERT_TRUE(clip);
  EXPECT_EQ(runner::declared_mixing(schemas, "model.clip_vision"), clip->mixes_samples());
  const auto probe = model_of(kModelLinearProbe, "model/linear_probe", backbone);
  ASSERT_TRUE(probe);
  EXPECT_EQ(runner::declared_mixing(schemas, "model.linear_probe"), probe->mixes_samples());
  const auto lora = model_of(kModelLora, "model/lora", backbone);
  ASSERT_TRUE(lora);
  EXPECT_EQ(runner::declared_mixing(schemas, "model.lora"), lora->mixes_samples());
}

TEST(Declared, CrossEntropyIsASumOverSamples) {
  const auto declared =
      runner::declared_coupling(runner::shipped_schemas(), "train.supervised", stage_options("train/supervised", "{}"));
  EXPECT_EQ(declared, runner::LossCoupling::kPerSample);
}

TEST(Declared, OnlyKindsWithBatchNormMixSamples) {
  const runner::SchemaSet schemas = runner::shipped_schemas();
  EXPECT_TRUE(runner::declared_mixing(schemas, "model.se_resnext"));
  EXPECT_FALSE(runner::declared_mixing(schemas, "model.clip"));
}

}  // namespace
}  // namespace stages
