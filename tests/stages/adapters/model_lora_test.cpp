#include <map>

#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/fine_tuned.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"
#include "tests/support/small_backbone.h"

namespace stages {
namespace {

using runner::StageError;

std::shared_ptr<const Model> adapted(Json options, const Json& backbone = small()) {
  options["backbone"] = backbone;
  return model_of(kModelLora, options);
}

std::vector<std::string> trained_names(const torch::nn::Module& network) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : trained_parameters(network)) names.push_back(name);
  return names;
}

TEST(Lora, AdaptersChangeNothingBeforeTheFirstStep) {
  const auto with = adapted({{"dropout", 0}}),
             without = model_of(kModelLinearProbe, {{"backbone", small()}});
  const at::Tensor logits =
      with->forward(*with->build(flowers(), 1), {{"image", pixels()}}).at("logits");
  EXPECT_TRUE(torch::equal(
      logits, without->forward(*without->build(flowers(), 1), {{"image", pixels()}}).at("logits")));
}

// The published program ran its frozen projection under no_grad, so no adapter ever got a gradient.
TEST(Lora, GradientReachesEveryAdapterThroughAFrozenProjection) {
  for (const char* features : {"pooled", "projected", "projected_before_norm"}) {
    const auto fine_tuned = adapted({{"targets", {"q_proj", "v_proj"}}, {"dropout", 0}},
                                    small({{"features", features}}));
    const auto network = fine_tuned->build(flowers(), 1);
    const NamedTensors before = weights(*network);
    std::map<std::string, at::Tensor> base;
    for (const auto& item : network->named_parameters())
      base[item.key()] = item.value().detach().clone();
    const auto step = [&] {
      const at::Tensor logits = fine_tuned->forward(*network, {{"image", pixels()}}).at("logits");
      torch::autograd::backward({(logits * torch::arange(6).reshape({2, 3})).sum()}, {});
      const torch::NoGradGuard no_graph;
      for (auto& [name, weight] : trained_parameters(*network)) {
        ASSERT_TRUE(weight.grad().defined()) << features << name;
        at::Tensor(weight).sub_(0.1 * weight.grad());
      }
    };
    step();
    for (const auto& [name, weight] : trained_parameters(*network)) {
      const bool moved = !torch::equal(weight, base.at(name));
      EXPECT_EQ(moved, !name.ends_with("lora_A.weight"))
          << features << name;  // while B is zero, A has no gradient
    }
    for (const auto& item : network->named_parameters()) {
      if (item.value().requires_grad()) continue;
      EXPECT_TRUE(torch::equal(item.value(), base.at(item.key()))) << features << item.key();
      EXPECT_FALSE(item.value().grad().defined()) << item.key();
    }
  }
}

TEST(Lora, OnlyAdaptersAndHeadAreSaved) {
  const auto network = adapted({{"targets", {"q_proj"}}, {"layers", {1}}, {"bias", "lora_only"}})
                           ->build(flowers(), 1);
  const std::string layer = "vision_model.encoder.layers.1.self_attn.q_proj.";
  EXPECT_THAT(trained_names(*network),
              testing::UnorderedElementsAre(layer + "bias", layer + "lora_A.weight",
                                            layer + "lora_B.weight", "head.weight", "head.bias"));
  EXPECT_EQ(weights(*network).size(), 5u);
}

TEST(Lora, TrainableParameterCountMatchesPeft) {
  const auto lora = adapted({{"rank", 8}, {"targets", {"q_proj", "v_proj"}}});
  const auto network = lora->build(flowers(), 1);
  EXPECT_THAT(lora->notes(*network),
              testing::Contains(testing::MatchesRegex(
                  "trainable params: 533 \\|\\| all params: [0-9,]+ \\|\\| trainable%: .*")));
}

TEST(Lora, FrozenWeightsCanBeStoredInHalfPrecision) {
  const auto half = adapted({{"targets", {"q_proj"}}, {"dropout", 0}}, small({{"dtype", "bf16"}}));
  const auto network = half->build(flowers(), 1);
  for (const auto& item : network->named_parameters()) {
    EXPECT_EQ(item.value().scalar_type(), item.value().requires_grad() ? at::kFloat : at::kBFloat16)
        << item.key();
  }
  const at::Tensor logits = half->forward(*network, {{"image", pixels()}}).at("logits");
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  const auto whole = adapted({{"targets", {"q_proj"}}, {"dropout", 0}});
  const at::Tensor exact =
      whole->forward(*whole->build(flowers(), 1), {{"image", pixels()}}).at("logits");
  EXPECT_TRUE(torch::allclose(logits, exact, 0.05, 0.02));
  EXPECT_FALSE(torch::equal(logits, exact));
}

TEST(Lora, VitTargetsAcceptBothNamingSchemesOfTransformers) {
  const Json vit = {{"kind", "vit"},          {"hidden_size", 8},         {"intermediate_size", 16},
                    {"num_hidden_layers", 1}, {"num_attention_heads", 2}, {"patch_size", 4}};
  for (const char* target : {"query", "q_proj"}) {
    const auto network = adapted({{"targets", {target}}}, vit)->build(flowers(), 1);
    EXPECT_THAT(trained_names(*network),
                testing::Contains("vision_model.encoder.layers.0.self_attn.q_proj.lora_A.weight"));
  }
  EXPECT_REFUSED(adapted({{"targets", {"q"}}}, vit)->build(flowers(), 1), kOptionConflict,
                 "/model/targets");
}

TEST(Lora, Dinov2TargetsAcceptBothNamingSchemesOfTransformers) {
  const Json dinov2 = {{"kind", "dinov2"},         {"hidden_size", 8},
                       {"intermediate_size", 16},  {"num_hidden_layers", 1},
                       {"num_attention_heads", 2}, {"patch_size", 4}};
  for (const char* target : {"attention.attention.query", "query", "attention.q_proj"}) {
    const auto network = adapted({{"targets", {target}}}, dinov2)->build(flowers(), 1);
    EXPECT_THAT(trained_names(*network),
                testing::Contains("vision_model.encoder.layers.0.self_attn.q_proj.lora_A.weight"));
  }
}

}  // namespace
}  // namespace stages
