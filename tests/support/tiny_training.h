#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/train/trainer.h"
#include "stages/weights/weights.h"
#include "tests/support/optimizer_rules.h"
#include "tests/support/recording_context.h"
#include "tests/support/tiny_step.h"

namespace stages {

inline constexpr AdamOptions kAdamW = adamw(0.05);

inline TrainerOptions tiny_options() {
  TrainerOptions options;
  options.epochs = 4;
  options.batch_size = 8;
  options.optimizer = kAdamW;
  options.monitor = "loss";
  return options;
}

/// A training run of TinyModel, assembled from parts that a test may change first.
struct TinyTraining {
  std::shared_ptr<TinyDataset> train_data = std::make_shared<TinyDataset>(30),
                               validation = std::make_shared<TinyDataset>(12);
  TrainerOptions options = tiny_options();
  MemoryPolicy policy;
  TinyStep step;
  RecordingContext context;
  std::shared_ptr<torch::nn::Module> network = step.model.build(train_data->describe(), 7);

  TrainingResult run() {
    return train(step, *network, {train_data, validation}, options, policy, context);
  }
  std::string error() {
    try {
      run();
    } catch (const runner::StageError& error) {
      code = error.code;
      return error.what();
    }
    return "";
  }
  at::Tensor flat_weights() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : weights(*network))
      all.push_back(tensor.detach().flatten().clone());
    return torch::cat(all).cpu();
  }
  runner::ErrorCode code{};
};

}  // namespace stages
