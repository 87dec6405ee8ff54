#include "stages/model/torch_script.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/initializer.h"
#include "stages/model/vision_tower.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

ImageClassifierOptions clip_options(Feature feature) {
  ImageClassifierOptions options;
  options.tower.block = {8, 16, 2, Activation::kQuickGelu, 1e-5};
  options.tower.num_hidden_layers = 2;
  options.tower.patch_size = 4;
  options.tower.image_size = 8;
  options.feature = feature;
  if (is_projected(feature)) options.projection_dim = 6;
  options.num_classes = 3;
  return options;
}

ImageClassifierOptions timms_vit_options() {
  ImageClassifierOptions options = clip_options(Feature::kPooled);
  options.tower.block.hidden_act = Activation::kGelu;
  options.tower.block.fused_qkv = true;
  options.tower.patch_bias = true;
  options.tower.norm_before_blocks = false;
  return options;
}

void expect_the_same_logits(const ImageClassifierOptions& options) {
  ImageClassifier network(options);
  initialize(network, {8, 2, 0.5, 1}, 7);
  const torch::NoGradGuard no_graph;
  for (const auto& item : network.named_parameters()) {
    const bool is_constant =
        item.key().ends_with("lambda1") || item.key().ends_with("register_tokens");
    if (is_constant)
      item.value().copy_(torch::linspace(-1, 2, item.value().numel()).view_as(item.value()));
  }
  const TemporaryFolder folder;
  write_torch_script(network, folder / "model.pt");
  torch::jit::Module program = torch::jit::load((folder / "model.pt").string());
  for (const std::int64_t images : {1, 3}) {
    const at::Tensor pixels =
        torch::sin(torch::arange(images * 3 * 8 * 8, at::kFloat)).view({images, 3, 8, 8});
    const at::Tensor theirs = program.forward({pixels}).toTensor();
    EXPECT_EQ(theirs.sizes(), (std::vector<std::int64_t>{images, 3}));
    EXPECT_LT((theirs - network.forward(pixels).at("logits")).abs().max().item<double>(), 1e-5);
  }
}

TEST(TorchScript, ClipWithPooledFeaturesMatches) {
  expect_the_same_logits(clip_options(Feature::kPooled));
}
TEST(TorchScript, ClipWithProjectedFeaturesMatches) {
  expect_the_same_logits(clip_options(Feature::kProjected));
}
TEST(TorchScript, ClipProjectedBeforeItsNormMatches) {
  expect_the_same_logits(clip_options(Feature::kProjectedBeforeNorm));
}
TEST(TorchScript, TimmVitMatches) { expect_the_same_logits(timms_vit_options()); }

TEST(TorchScript, Dinov2WithRegisterTokensMatches) {
  ImageClassifierOptions options = timms_vit_options();
  options.tower.block.layer_scale = true;
  options.tower.register_tokens = 3;
  expect_the_same_logits(options);
}

TEST(TorchScript, WeightsInHalfPrecisionAreWidened) {
  ImageClassifier network(clip_options(Feature::kPooled));
  initialize(network, {8, 2, 0.5, 1}, 7);
  for (at::Tensor parameter : network.parameters()) parameter.set_data(parameter.to(at::kBFloat16));
  const TemporaryFolder folder;
  write_torch_script(network, folder / "model.pt");
  for (const at::Tensor& parameter :
       torch::jit::load((folder / "model.pt").string()).parameters()) {
    EXPECT_EQ(parameter.scalar_type(), at::kFloat);
  }
}

}  // namespace
}  // namespace stages
