#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <torch/nn/module.h>

#include "stages/machine/counting_allocator.h"
#include "stages/model/clip_vision.h"
#include "stages/train/classification_loss.h"
#include "stages/train/mixing.h"
#include "stages/train/plan_training.h"
#include "stages/train/trainer.h"
#include "tests/support/noise_images.h"
#include "tests/support/optimizer_rules.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"

namespace stages {

inline ClipVisionConfig planned_tower(std::int64_t layers, std::int64_t width = 64) {
  ClipVisionConfig config;
  config.pointer = "/model";
  config.tower.block = {.hidden_size = width,
                        .intermediate_size = 4 * width,
                        .num_attention_heads = 4,
                        .layer_norm_eps = 1e-5};
  config.tower.num_hidden_layers = layers;
  config.tower.patch_size = 8;
  config.initializer_range = 0.02;
  config.initializer_factor = 1;
  return config;
}

/// Cross-entropy of a model, with the coupling and mixing that a test sets.
class ClassifyingStep final : public TrainingStep {
 public:
  explicit ClassifyingStep(const Model& model, Coupling coupling = Coupling::kPerSample)
      : model_(model), coupling_(coupling) {}
  std::vector<LossTerm> terms() const override { return {{"cross_entropy", coupling_}}; }
  bool mixes_samples() const override { return mixes; }
  bool mixes_over_ranks() const override { return true; }
  std::string why_not_replayed() const override { return {}; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    return {{"cross_entropy", cross_entropy_sum(encoded.at("logits"), part["label"], 0)}};
  }
  Batch prepare(const Batch& batch, const StepKey& key) const override {
    return mixing.mixes() ? mix_samples(batch, mixing, key) : batch;
  }
  bool mixes = false;
  MixingOptions mixing;

 private:
  const Model& model_;
  const Coupling coupling_;
};

/// A training run of a small tower that can be planned and run.
struct TowerPlanning {
  explicit TowerPlanning(std::int64_t layers = 3, NoiseImages images = {40, 32},
                         std::int64_t width = 64)
      : data(std::move(images)), model(planned_tower(layers, width)) {
    policy.pointer = "/memory";
    options.epochs = 2;
    options.batch_size = 16;
    options.optimizer = adamw(1e-3, /*weight_decay=*/0);
    options.monitor = "loss";
    options.keep = Keep::kLast;
    context.asked.budget = {"a test", 1 << 30};
  }
  runner::MemoryPlan plan() { return planned().plan; }
  PlannedStep planned() {
    const DatasetDescription description = data.describe();
    return plan_training({.step = step,
                          .model = model,
                          .data = description,
                          .network_data = description,
                          .loader = data.loader(),
                          .options = options,
                          .policy = policy},
                         context);
  }
  /// The peak during training, as counted by the allocator.
  std::int64_t measured() const { return measured(policy); }
  std::int64_t measured(const MemoryPolicy& policy) const {
    RecordingContext running;
    CountingAllocator counter;
    const auto network = model.build(data.describe(), 1);
    TrainingData given{std::make_shared<NoiseImages>(data), nullptr};
    train(step, *network, given, options, policy, running);
    return counter.peak_bytes();
  }

  NoiseImages data;
  ClipVision model;
  ClassifyingStep step{model};
  TrainerOptions options;
  MemoryPolicy policy;
  PlanningContext context;
};

}  // namespace stages
