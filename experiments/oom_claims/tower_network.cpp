#include <optional>
#include <string_view>

#include <torch/types.h>

#include "experiments/oom_claims/image_network.h"
#include "stages/model/attached_lora.h"
#include "stages/model/vision_tower.h"

namespace oom_claims {
namespace {

class TowerNetwork final : public ImageNetwork {
 public:
  TowerNetwork(const stages::ImageClassifierOptions& tower, std::int64_t lora_rank,
               const at::TensorOptions& options) {
    classifier_ =
        register_module("tower", std::make_shared<stages::ImageClassifier>(tower, options));
    if (lora_rank == 0) return;
    const auto names = [](std::string_view ours) { return std::optional<std::string>(ours); };
    stages::attach_lora(*classifier_,
                        {.rank = lora_rank,
                         .alpha = static_cast<double>(lora_rank),
                         .targets = std::vector<std::string>{"q_proj", "v_proj"},
                         .exclude = std::vector<std::string>{}},
                        names, 1);
    for (const auto& item : classifier_->named_parameters())
      if (item.key().starts_with("head")) item.value().requires_grad_(true);
  }
  at::Tensor logits(const at::Tensor& images) override {
    return classifier_->forward(images).at("logits");
  }

 private:
  std::shared_ptr<stages::ImageClassifier> classifier_;
};

}  // namespace

NetworkKind vit_b16(std::int64_t side, std::int64_t lora_rank) {
  stages::ImageClassifierOptions tower;
  tower.tower.block.hidden_size = 768;
  tower.tower.block.intermediate_size = 3072;
  tower.tower.block.num_attention_heads = 12;
  tower.tower.block.hidden_act = stages::Activation::kGelu;
  tower.tower.block.layer_norm_eps = 1e-6;
  tower.tower.num_hidden_layers = 12;
  tower.tower.patch_size = 16;
  tower.tower.image_size = side;
  tower.tower.patch_bias = true;
  tower.tower.norm_before_blocks = false;
  tower.num_classes = 102;
  return {"ViT-B/16", [tower, lora_rank](const at::TensorOptions& options) {
            return std::make_shared<TowerNetwork>(tower, lora_rank, options);
          }};
}

NetworkKind small_tower(double dropout) {
  stages::ImageClassifierOptions tower;
  tower.tower.block.hidden_size = 8;
  tower.tower.block.intermediate_size = 16;
  tower.tower.block.num_attention_heads = 2;
  tower.tower.block.layer_norm_eps = 1e-5;
  tower.tower.num_hidden_layers = 2;
  tower.tower.patch_size = 4;
  tower.tower.image_size = 8;
  tower.num_classes = 3;
  tower.dropout = dropout;
  return {"two blocks of a tower", [tower](const at::TensorOptions& options) {
            return std::make_shared<TowerNetwork>(tower, 0, options);
          }};
}

}  // namespace oom_claims
