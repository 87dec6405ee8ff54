// Checks that models can be shrunk, and what their certificates report.

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/train/certify.h"
#include "stages/weights/weights.h"
#include "tests/support/model_of.h"
#include "tests/support/planning_context.h"
#include "tests/support/small_backbone.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// One model of each kind, with layers that are too wide for a quick comparison.
std::vector<std::pair<std::string, std::shared_ptr<const Model>>> models() {
  const Json wide =
      Json::parse(R"({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 3,
                                    "num_attention_heads": 12, "patch_size": 16, "projection_dim": 512})");
  Json dropping = wide, backbone = wide, timm = wide, dinov2 = wide;
  dropping.update(Json::parse(
      R"({"attention_dropout": 0.2, "drop_path": 0.3, "dropout": 0.1, "features": "projected"})"));
  backbone["features"] = "projected";
  timm.update(Json::parse(R"({"kind": "vit", "names": "timm"})"));
  timm.erase("projection_dim");
  dinov2.update(Json::parse(R"({"kind": "dinov2", "register_tokens": 4})"));
  dinov2.erase("projection_dim");
  return {
      {"a tower", model_of(kModelClipVision, dropping)},
      {"a head", model_of(kModelLinearProbe, {{"backbone", backbone}})},
      {"adapters", model_of(kModelLora, {{"backbone", backbone}, {"rank", 16}})},
      {"adapters on DINOv2", model_of(kModelLora, {{"backbone", dinov2}, {"targets", {"query"}}})},
      {"adapters on timm's", model_of(kModelLora, {{"backbone", timm}, {"targets", {"qkv"}}})}};
}

/// Cross-entropy of the logits of a model.
class ModelStep final : public TinyStep {
 public:
  explicit ModelStep(const Model& model) : model_(model) {}
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }

 private:
  const Model& model_;
};

runner::Certificate certified_model(const TrainingStep& step, const Model& model,
                                    const DatasetDescription& data, const MemoryPolicy& policy,
                                    const std::string& model_stage = "model") {
  TrainerOptions options = tiny_options();
  options.batch_size = 64;
  options.model_stage = model_stage;
  PlanningContext context;
  return certify({.step = step,
                  .model = model,
                  .data = data,
                  .network_data = data,
                  .loader = {},
                  .options = options,
                  .policy = policy},
                 context);
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(Shrunken, HasTheSameModulesAndFewElements) {
  const DatasetDescription data = flowers(224);
  for (const auto& [name, model] : models()) {
    const Shrunken small = dynamic_cast<const ShrinkableModel&>(*model).shrunken(data);
    const auto outline = model->outline(data), network = small.model->build(small.data, 1);
    EXPECT_EQ(names_of(weights(*network)), names_of(weights(*outline))) << name;
    EXPECT_EQ(names_of(trained_parameters(*network)), names_of(trained_parameters(*outline)))
        << name;
    std::int64_t numbers = 0;
    for (const at::Tensor& parameter : network->parameters()) numbers += parameter.numel();
    EXPECT_LT(numbers, 20000) << name;
  }
}

TEST(Certify, PoliciesAreCertifiedForEveryModel) {
  MemoryPolicy policy;
  policy.micro_batch = 24;
  policy.activation_checkpointing.blocks = true;
  for (const auto& [name, model] : models()) {
    const ModelStep step(*model);
    for (const bool two_pass : {false, true}) {
      policy.two_pass = two_pass;
      DatasetDescription data = flowers(224);
      data.size = 100;
      const runner::Certificate cut = certified_model(step, *model, data, policy);
      EXPECT_TRUE(cut.holds()) << name << ": " << cut.refused << " " << cut.worst();
      EXPECT_GT(cut.worst(), 0) << name;  // the batch was split
    }
  }
}

TEST(Certify, RecomputedConvolutionalBlocksGiveTheSameGradient) {
  MemoryPolicy policy;
  policy.activation_checkpointing.blocks = true;
  DatasetDescription data = flowers(224);
  data.size = 100;
  for (const char* name :
       {"seresnext50_32x4d", "resnet50", "densenet121", "efficientnet_b2", "mobilenetv2_100"}) {
    const auto model = model_of(kModelCnn, {{"architecture", name}});
    const ModelStep step(*model);
    const runner::Certificate recomputed = certified_model(step, *model, data, policy);
    EXPECT_TRUE(recomputed.holds())
        << name << ": " << recomputed.refused << " " << recomputed.worst();
    EXPECT_THAT(recomputed.compared, testing::HasSubstr("activation_checkpointing block")) << name;
  }
}

TEST(Certify, ModulesAreNamedAsInTheRecipe) {
  const auto model = models()[0].second;
  const ModelStep step(*model);
  MemoryPolicy policy;
  policy.pointer = "/memory";
  policy.activation_checkpointing.modules = {"tower.vision_model.encoder.layers.2.mlp"};
  const DatasetDescription data = flowers(224);
  EXPECT_EQ(certified_model(step, *model, data, policy, "tower").compared,
            "activation_checkpointing [vision_model.encoder.layers.2.mlp] against the whole batch "
            "of 5, with dropout");
  EXPECT_EQ(certified_model(step, *model, data, policy).refused,
            "'tower.vision_model.encoder.layers.2.mlp' does not match any module in the network of "
            "'model'");
}

}  // namespace
}  // namespace stages
