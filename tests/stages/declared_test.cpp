// Schemas declare what kinds do to a batch, so that a recipe can be checked without LibTorch; this
// compares the declarations with the code.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/compile/legality.h"
#include "stages/stages.h"
#include "tests/support/model_of.h"
#include "tests/support/small_backbone.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

TEST(Declared, ModelsMixSamplesAsDeclared) {
  const runner::SchemaSet& schemas = runner::shipped_schemas();
  const Json backbone = {{"backbone", small()}};
  const auto clip =
      model_of(kModelClipVision,
               Json::parse(R"({"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
                                                 "num_attention_heads": 4, "patch_size": 4})"));
  EXPECT_EQ(runner::declared_mixing(schemas, "model.clip_vision"), clip->mixes_samples());
  const auto probe = model_of(kModelLinearProbe, backbone);
  EXPECT_EQ(runner::declared_mixing(schemas, "model.linear_probe"), probe->mixes_samples());
  for (const runner::StageKind* kind :
       {&kModelFewShotTransformer, &kModelCrossTransformer, &kModelSeResnext, &kModelCnn})
    EXPECT_EQ(runner::declared_mixing(schemas, kind->name),
              model_of(*kind, Json::object())->mixes_samples());
  const auto full = model_of(kModelFull, backbone);
  EXPECT_EQ(runner::declared_mixing(schemas, "model.full"), full->mixes_samples());
  const auto lora = model_of(kModelLora, backbone);
  EXPECT_EQ(runner::declared_mixing(schemas, "model.lora"), lora->mixes_samples());
}

TEST(Declared, CrossEntropyIsASumOverSamples) {
  const auto declared = runner::declared_coupling(runner::shipped_schemas(), "train.supervised",
                                                  stage_options("train/supervised", "{}"));
  EXPECT_EQ(declared, runner::LossCoupling::kPerSample);
}

TEST(Declared, OnlyKindsWithBatchNormMixSamples) {
  const runner::SchemaSet& schemas = runner::shipped_schemas();
  EXPECT_TRUE(runner::declared_mixing(schemas, "model.se_resnext"));
  EXPECT_FALSE(runner::declared_mixing(schemas, "model.clip"));
}

}  // namespace
}  // namespace stages
