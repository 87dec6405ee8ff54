// DINOv2 networks of transformers and timm, with their configs and weights as Retort reads them.
// tests/golden/dinov2.py recorded them.

#include <torch/types.h>

#include "runner/shared/weights/pretrained_config.h"
#include "stages/model/pretrained.h"
#include "stages/model/vision_tower.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

/// Returns values around 1 for layer scales and norm weights, and around 0 for everything else.
NamedTensors weights_of(const nlohmann::json& shapes, std::uint64_t seed) {
  NamedTensors result;
  for (std::size_t number = 0; number < shapes.size(); ++number) {
    const std::string name = shapes[number][0];
    const auto shape = shapes[number][1].get<std::vector<std::int64_t>>();
    const bool is_norm = name.find("norm") != name.npos && name.ends_with("weight");
    const bool is_scale = name.ends_with("lambda1") || name.ends_with("gamma");
    result.set(name, (is_norm || is_scale ? 1 : 0) + 0.5 * hash_uniform(seed, number, shape));
  }
  return result;
}

ImageClassifierOptions classifier_of(const runner::PretrainedConfig& config, bool is_of_timm,
                                     std::int64_t image_size) {
  EXPECT_EQ(config.kind, "dinov2");
  ImageClassifierOptions options;
  BlockOptions& block = options.tower.block;
  block.hidden_size = config.hidden_size.value();
  block.intermediate_size = config.intermediate_size.value();
  block.num_attention_heads = config.num_attention_heads.value();
  block.hidden_act = activation_named(config.hidden_act.value());
  block.layer_norm_eps = config.layer_norm_eps.value();
  block.fused_qkv = is_of_timm;
  block.layer_scale = true;
  options.tower.num_hidden_layers = config.num_hidden_layers.value();
  options.tower.patch_size = config.patch_size.value();
  options.tower.image_size = image_size;
  options.tower.patch_bias = true;
  options.tower.norm_before_blocks = false;
  options.tower.register_tokens = config.register_tokens.value();
  options.num_classes = 2;
  return options;
}

/// Applies the final norm to every token.
at::Tensor normed(const VisionTower& tower, const at::Tensor& last) {
  std::vector<at::Tensor> tokens;
  for (std::int64_t i = 0; i < last.size(1); ++i) tokens.push_back(tower.pool(last.slice(1, i)));
  return torch::stack(tokens, 1);
}

void compare_dinov2(const RecordedCase& recorded) {
  const nlohmann::json& about = recorded.json.at("case");
  const std::uint64_t seed = about.at("seed");
  const std::int64_t side = about.at("image_size");
  const NamedTensors saved = weights_of(recorded.json.at("shapes"), seed);
  const WeightLayout layout = layout_of(saved).value();
  const bool is_of_timm = layout == WeightLayout::kTimm;
  const runner::PretrainedConfig config = runner::pretrained_config(recorded.json.at("config"));
  const ImageClassifierOptions options = classifier_of(config, is_of_timm, side);
  const auto network = std::make_shared<ImageClassifier>(options);
  network->to(at::kDouble);
  // transformers resizes with antialiasing only if there are register tokens.
  const bool is_smooth = is_of_timm || options.tower.register_tokens > 0;
  const PretrainedReport report = load_pretrained(
      *network, saved, is_smooth ? PositionResize::kBicubicAntialias : PositionResize::kBicubic);
  ASSERT_TRUE(report.fits()) << report.misfits();
  ASSERT_EQ(report.positions_before > 0, config.image_size != side);

  const bool is_resized = report.positions_before > 0;  // in float32 by the libraries
  const double tolerance = is_resized ? 2e-6 : 1e-12;
  const at::Tensor pixels = hash_uniform(seed, kPixelStream, {2, 3, side, side});
  const at::Tensor tokens = tensor_of(recorded.json.at("tokens"));
  expect_close(normed(network->tower(), network->tower().forward(pixels)), tokens, "tokens",
               tolerance);
  const at::Tensor features = network->features(pixels);
  expect_close(features, tokens.select(1, 0), "features", tolerance);
  (10 * (hash_uniform(seed, kProbeStream, features.sizes()) * features).mean()).backward();
  for (const auto& [theirs, gradient] : recorded.json.at("gradients").items()) {
    const auto ours = our_name(layout, theirs);
    ASSERT_TRUE(ours) << theirs;
    expect_close(network->named_parameters()[*ours].grad().flatten(), tensor_of(gradient).flatten(),
                 theirs, tolerance);
  }
}

}  // namespace

std::vector<CaseKind> dinov2_cases() { return {number_kind("Dinov2", "dinov2", compare_dinov2)}; }
