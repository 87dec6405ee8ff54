// Learning rates that fall toward the first layers, as timm's param_groups_layer_decay() scales
// them. tests/golden/layer_decay.py recorded them.

#include <map>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/model/convolutional_classifier.h"
#include "stages/model/vision_tower.h"
#include "stages/model/weight_names.h"
#include "stages/train/layer_decay.h"
#include "stages/train/trainer_options.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

std::shared_ptr<torch::nn::Module> network_of(const std::string& architecture) {
  constexpr std::int64_t kOutputs = 3;
  if (architecture == "resnet18") {
    ConvolutionalClassifierConfig config;
    config.backbone = ResNetOptions{.statistics = BatchNormStatistics::kFixed, .width = 4};
    return std::make_shared<ConvolutionalClassifierNetwork>(config, kOutputs, at::kFloat);
  }
  EXPECT_EQ(architecture, "vit_base_patch16_224");
  ImageClassifierOptions options;
  options.tower.block = {8, 32, 2, Activation::kGelu, 1e-6, 0, /*fused_qkv=*/true};
  options.tower.num_hidden_layers = 3;
  options.tower.patch_size = 4;
  options.tower.image_size = 8;
  options.tower.patch_bias = true;
  options.tower.norm_before_blocks = false;
  options.num_classes = kOutputs;
  return std::make_shared<ImageClassifier>(options);
}

std::string name_in_ours(const std::string& architecture, const std::string& theirs) {
  if (architecture != "resnet18") return our_name(WeightLayout::kTimm, theirs).value_or("");
  return theirs.starts_with("fc.") ? "classifier.1." + theirs.substr(3) : "backbone." + theirs;
}

void compare_layer_decay(const RecordedCase& recorded) {
  const std::string architecture = recorded.json.at("case").at("architecture");
  Arguments arguments(recorded, "param_groups_layer_decay");
  TrainerOptions options;
  options.layer_decay = arguments.get<double>("layer_decay");
  options.optimizer = AdamOptions{
      .learning_rate = 1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0};
  const auto network = network_of(architecture);
  std::map<std::string, double> rates;
  for (const ParameterGroup& group : groups_of_training(*network, options)) {
    const double rate =
        std::visit([](const auto& one) { return one.learning_rate; }, group.optimizer);
    for (const auto& [name, tensor] : group.parameters) rates[name] = rate;
  }
  const nlohmann::json& scales = recorded.json.at("scales");
  EXPECT_EQ(rates.size(), scales.size());
  for (const auto& [theirs, scale] : scales.items()) {
    const std::string ours = name_in_ours(architecture, theirs);
    ASSERT_TRUE(rates.contains(ours)) << theirs;
    // The only difference: a ViT's last norm has the rate of the last block in timm, and of the
    // head in Retort.
    const bool is_last_norm = theirs == "norm.weight" || theirs == "norm.bias";
    if (is_last_norm) EXPECT_EQ(scale.get<double>(), *options.layer_decay);
    expect_close(rates.at(ours), is_last_norm ? 1 : scale.get<double>(), theirs);
  }
}

}  // namespace

std::vector<CaseKind> layer_decay_cases() {
  return {number_kind("LayerDecays", "layer_decay", compare_layer_decay)};
}
