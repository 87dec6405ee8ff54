#include "stages/model/initializer.h"

#include <cmath>
#include <ostream>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/model/vision_tower.h"
#include "tests/support/chance.h"

namespace stages {
namespace {

constexpr std::int64_t kWidth = 128, kLayers = 4;

std::shared_ptr<ImageClassifier> network(std::uint64_t seed, double factor = 1,
                                         bool projected = true) {
  ImageClassifierOptions options;
  options.tower = {{kWidth, 512, 4, Activation::kQuickGelu, 1e-5}, kLayers, 12, 96};
  options.feature = projected ? Feature::kProjected : Feature::kPooled;
  if (projected) options.projection_dim = 64;
  options.num_classes = 300;
  const auto result = std::make_shared<ImageClassifier>(options);
  initialize(*result, {kWidth, kLayers, 0.02, factor}, seed);
  return result;
}

struct Expected {
  std::string name;
  double deviation;
};

void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.name; }

class Normal : public testing::TestWithParam<Expected> {};
INSTANTIATE_TEST_SUITE_P(
    Weights, Normal,
    testing::Values(Expected{"vision_model.embeddings.class_embedding", 0.08838834764831845},
                    Expected{"vision_model.embeddings.patch_embedding.weight", 0.02},
                    Expected{"vision_model.embeddings.position_embedding.weight", 0.02},
                    Expected{"vision_model.encoder.layers.0.self_attn.q_proj.weight", 0.03125},
                    Expected{"vision_model.encoder.layers.1.self_attn.k_proj.weight", 0.03125},
                    Expected{"vision_model.encoder.layers.2.self_attn.v_proj.weight", 0.03125},
                    Expected{"vision_model.encoder.layers.3.self_attn.out_proj.weight",
                             0.08838834764831845},
                    Expected{"vision_model.encoder.layers.0.mlp.fc1.weight", 0.0625},
                    Expected{"vision_model.encoder.layers.3.mlp.fc2.weight", 0.03125},
                    Expected{"visual_projection.weight", 0.08838834764831845}));

TEST_P(Normal, HasTheStandardDeviationOfTransformersTimesTheFactor) {
  const at::Tensor weight =
      network(3, /*factor=*/2)->named_parameters()[GetParam().name].to(torch::kFloat64);
  const double n = static_cast<double>(weight.numel()), deviation = 2 * GetParam().deviation;
  EXPECT_NEAR(weight.std().item<double>(), deviation, deviation_error(deviation, n));
  EXPECT_NEAR(weight.mean().item<double>(), 0, mean_error(deviation, n));
  EXPECT_GT(weight.abs().max().item<double>(), 2 * deviation);  // excludes a uniform distribution
}

TEST(Initializer, NormsAreOneAndBiasesZero) {
  std::size_t ones = 0, zeros = 0;
  for (const auto& item : network(3)->named_parameters()) {
    const std::string& name = item.key();
    if (name.starts_with("head.")) continue;
    if (name.ends_with(".bias")) {
      EXPECT_TRUE(item.value().eq(0).all().item<bool>()) << name;
      ++zeros;
    } else if (name.find("norm") != name.npos) {
      EXPECT_TRUE(item.value().eq(1).all().item<bool>()) << name;
      ++ones;
    }
  }
  EXPECT_EQ(ones, 2 * kLayers + 2);
  EXPECT_EQ(zeros, 2 * kLayers + 2 + 6 * kLayers);
}

TEST(Initializer, LayerScalesAreOneAndRegisterTokensZero) {
  ImageClassifierOptions options;
  options.tower = {{kWidth, 512, 4, Activation::kGelu, 1e-6}, kLayers, 12, 96};
  options.tower.block.layer_scale = true;
  options.tower.register_tokens = 2;
  options.num_classes = 3;
  ImageClassifier network_of_dinov2(options);
  initialize(network_of_dinov2, {kWidth, kLayers, 0.02, 1, InitializerRule::kVit}, 3);
  const auto weights = network_of_dinov2.named_parameters();
  const std::string block = "vision_model.encoder.layers.1.";
  EXPECT_TRUE(weights[block + "layer_scale2.lambda1"].eq(1).all().item<bool>());
  EXPECT_TRUE(weights["vision_model.embeddings.register_tokens"].eq(0).all().item<bool>());
  EXPECT_GT(weights["vision_model.embeddings.class_embedding"].abs().max().item<double>(), 0);
}

TEST(Initializer, HeadIsUniformWithinOneOverTheSquareRootOfItsInputs) {
  const auto weights = network(3, /*factor=*/2)->named_parameters();
  for (const std::string name : {"head.weight", "head.bias"}) {
    const at::Tensor weight = weights[name].to(torch::kFloat64);
    EXPECT_LE(weight.abs().max().item<double>(), 0.125) << name;
    EXPECT_GT(weight.max().item<double>(), 0.12) << name;
    EXPECT_LT(weight.min().item<double>(), -0.12) << name;
    const double deviation = 0.125 / std::sqrt(3.0);
    EXPECT_NEAR(weight.std().item<double>(), deviation, deviation_error(deviation, weight.numel()))
        << name;
  }
}

TEST(Initializer, EqualSeedsGiveEqualBits) {
  const auto a = network(7)->named_parameters(), b = network(7)->named_parameters();
  for (const auto& item : a) EXPECT_TRUE(item.value().equal(b[item.key()])) << item.key();
}

TEST(Initializer, AnotherSeedChangesEveryRandomWeight) {
  const auto a = network(7)->named_parameters(), b = network(8)->named_parameters();
  for (const auto& item : a) {
    const bool is_drawn = item.value().std().item<double>() > 0;
    EXPECT_NE(item.value().equal(b[item.key()]), is_drawn) << item.key();
  }
}

TEST(Initializer, WeightsDoNotRepeatRandomNumbers) {
  const auto weights = network(7)->named_parameters();
  const at::Tensor first = weights["vision_model.encoder.layers.0.self_attn.q_proj.weight"];
  EXPECT_FALSE(first.equal(weights["vision_model.encoder.layers.0.self_attn.k_proj.weight"]));
  EXPECT_FALSE(first.equal(weights["vision_model.encoder.layers.1.self_attn.q_proj.weight"]));
}

TEST(Initializer, ProjectionDoesNotChangeOtherWeights) {
  const auto with = network(7)->named_parameters(),
             without = network(7, 1, /*projected=*/false)->named_parameters();
  for (const auto& item : without) {
    if (item.key().starts_with("head.")) continue;  // its width differs
    EXPECT_TRUE(item.value().equal(with[item.key()])) << item.key();
  }
}

TEST(Initializer, GlobalGeneratorIsUntouched) {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state().clone();
  network(7);
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
}

}  // namespace
}  // namespace stages
