#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/attached_lora.h"
#include "stages/model/vision_tower.h"
#include "stages/numerics/numerics.h"
#include "stages/plan/memory_trace.h"
#include "stages/train/classification_loss.h"
#include "stages/train/gradient.h"
#include "stages/train/optimizer.h"
#include "stages/train/step_execution.h"

/// A training run of a vision tower, as small or large as its fields say.
struct TowerTraining {
  std::string name;
  std::int64_t batch = 8, image_size = 64, patch = 16, width = 64, heads = 4, layers = 2,
               classes = 10;
  std::int64_t micro_batch = 0;
  bool two_pass = false, lora = false, frozen = false, fused_qkv = false;
  stages::Layout layout = stages::Layout::kContiguous;
  stages::Activation activation = stages::Activation::kQuickGelu;
  double dropout = 0, attention_dropout = 0, drop_path = 0, lora_dropout = 0;
  std::optional<double> clip = {};
  stages::PrecisionMap precision = {};
  bool sgd = false, recomputes_blocks = false;
};

/// Cross-entropy of such a tower.
class TowerStep final : public stages::TrainingStep {
 public:
  std::vector<stages::LossTerm> terms() const override {
    return {{"cross_entropy", stages::Coupling::kPerSample}};
  }
  bool mixes_samples() const override { return false; }
  stages::NamedTensors encode(torch::nn::Module& network,
                              const stages::Batch& part) const override {
    return dynamic_cast<stages::ImageClassifier&>(network).forward(part["image"]);
  }
  stages::NamedTensors loss(const stages::NamedTensors& encoded,
                            const stages::Batch& part) const override {
    return {{"cross_entropy", stages::cross_entropy_sum(encoded.at("logits"), part["label"], 0)}};
  }
  stages::NamedTensors score(const stages::NamedTensors& encoded,
                             const stages::Batch& part) const override {
    return {{"accuracy", stages::correct_count(encoded.at("logits"), part["label"])}};
  }
};

/// Runs such a training run on the CPU, or on the Meta device.
class TowerRun {
 public:
  TowerRun(const TowerTraining& training, at::Device device)
      : training_(training), device_(device) {
    stages::ImageClassifierOptions options;
    options.tower.block.hidden_size = training.width;
    options.tower.block.intermediate_size = 4 * training.width;
    options.tower.block.num_attention_heads = training.heads;
    options.tower.block.hidden_act = training.activation;
    options.tower.block.layer_norm_eps = 1e-5;
    options.tower.block.attention_dropout = training.attention_dropout;
    options.tower.block.fused_qkv = training.fused_qkv;
    options.tower.num_hidden_layers = training.layers;
    options.tower.patch_size = training.patch;
    options.tower.image_size = training.image_size;
    options.tower.drop_path = training.drop_path;
    options.num_classes = training.classes;
    options.dropout = training.dropout;
    network = std::make_shared<stages::ImageClassifier>(options, at::TensorOptions(device));
    if (device.is_cpu()) {
      const torch::NoGradGuard no_graph;
      for (at::Tensor& weight : network->parameters()) weight.fill_(0.01);
    }
    if (training.frozen) {
      for (const auto& item : network->named_parameters())
        if (!item.key().starts_with("head")) item.value().requires_grad_(false);
    }
    if (training.lora) {
      const auto names = [](std::string_view ours) { return std::optional<std::string>(ours); };
      stages::attach_lora(*network,
                          {.rank = 4,
                           .alpha = 4,
                           .dropout = training.lora_dropout,
                           .targets = std::vector<std::string>{"q_proj", "v_proj", "fc1"},
                           .exclude = std::vector<std::string>{}},
                          names, 1);
      for (const auto& item : network->named_parameters())
        if (item.key().starts_with("head")) item.value().requires_grad_(true);
    }
    stages::set_layout(*network, training.layout);
    network->train();
    stages::NamedTensors trained;
    for (const auto& item : network->named_parameters())
      if (item.value().requires_grad()) trained.set(item.key(), item.value());
    if (training.sgd)
      optimizer.emplace(stages::SgdOptions{.learning_rate = 1e-3, .momentum = 0.9}, trained);
    else
      optimizer.emplace(stages::AdamOptions{.learning_rate = 1e-3,
                                            .beta1 = 0.9,
                                            .beta2 = 0.99,
                                            .epsilon = 1e-8,
                                            .weight_decay = 0.01,
                                            .decoupled = true},
                        trained);
    plan_.micro_batch = training.micro_batch;
    plan_.two_pass = training.two_pass;
    plan_.activation_checkpointing.blocks = training.recomputes_blocks;
    plan_.numerics.layout = training.layout;
    plan_.numerics.precision = training.precision;
  }

  /// Runs a step as the trainer does.
  void step() {
    const at::TensorOptions options(device_);
    const std::int64_t side = training_.image_size;
    at::Tensor images = torch::empty({training_.batch, 3, side, side}, options);
    at::Tensor labels = torch::empty({training_.batch}, options.dtype(torch::kLong));
    if (device_.is_cpu()) {
      images.fill_(0.5);
      labels.zero_();
    }
    const stages::Batch batch({{"image", std::move(images)}, {"label", std::move(labels)}},
                              training_.batch);
    stages::StepNumbers numbers = stages::accumulate_gradient(
        step_, {*network, plan_.numerics, device_}, stages::in_layout(batch, training_.layout),
        static_cast<double>(training_.batch), plan_, {7, number_++});
    optimizer->prepare();
    std::optional<at::Tensor> divisor;
    if (training_.clip) {
      const at::Tensor norm = stages::global_norm(optimizer->gradients());
      numbers.set_gradient_norm(norm);
      divisor = stages::clip_divisor(norm, *training_.clip);
    }
    stages::ScopedPhase phase(stages::StepPhase::kOptimizer);
    optimizer->step({}, divisor);
    network->zero_grad();
  }

  std::shared_ptr<stages::ImageClassifier> network;
  std::optional<stages::Optimizer> optimizer;

 private:
  const TowerTraining training_;
  const at::Device device_;
  const TowerStep step_;
  stages::StepPlan plan_;
  std::int64_t number_ = 0;
};

/// The most bytes that are live at once from `first_event` on, including kernels' memory.
inline std::int64_t peak_of(const stages::MemoryTrace& trace, std::size_t first_event = 0) {
  const auto storages = trace.storages();
  std::int64_t live = 0, peak = 0;
  std::size_t number = 0;
  for (const stages::TraceEvent& event : trace.events()) {
    live += (event.is_birth ? 1 : -1) * storages[event.storage].bytes;
    if (number++ >= first_event) peak = std::max(peak, live);
  }
  return peak;
}
