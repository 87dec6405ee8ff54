#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <c10/core/Device.h>

#include "stages/artifact/dataset.h"
#include "stages/numerics/numerics.h"
#include "stages/train/means.h"
#include "stages/train/step_numbers.h"
#include "stages/train/training_step.h"

namespace stages {

/// How a dataset is gone through to measure a network on it.
struct ValidationOptions {
  std::int64_t epoch = 0;  ///< handed to the dataset
  std::int64_t batch_size = 1;
  std::int64_t micro_batch = 0;  ///< units of a batch encoded at once; 0: all
  at::Device device = at::kCPU;
  Numerics numerics = {};
  std::optional<std::int64_t> batches;                                         ///< at most so many
  std::function<void(std::int64_t batch, std::int64_t batches)> before_batch;  ///< 1-based; may throw to stop
};

/// What `step` measures on one batch on the device, whose weight is `weight`, without a graph and in its numerics.
StepNumbers measure(const TrainingStep& step, torch::nn::Module& network, const Batch& batch, const Numerics& numerics,
                    std::int64_t micro_batch, double weight);

/// The means of `step`'s loss and scores over `dataset`, with the network in eval mode and no graph; its modes are put
/// back. Throws runner::StageError where a sample is unreadable or bad.
Means validate(const TrainingStep& step, torch::nn::Module& network, std::shared_ptr<const Dataset> dataset,
               const ValidationOptions& options);

}  // namespace stages
