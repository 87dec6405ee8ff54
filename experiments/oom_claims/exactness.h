#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "experiments/oom_claims/image_network.h"
#include "stages/train/gradient.h"

namespace oom_claims {

/// Below it a gradient is the same but for rounding, in float64; what is no rounding is above
/// kAnother.
inline constexpr double kEqual = 1e-12, kAnother = 1e-3;

/// A network of a kind in float64 on the CPU, in training, with some weights.
std::shared_ptr<ImageNetwork> double_network(const NetworkKind& kind);

/// `samples` random images of 8 pixels a side and labels of three classes, in float64; the first
/// ones are the same for every number.
stages::Batch random_images(std::int64_t samples);

/// The gradients of all parameters in a row, 0 where one has none; the network has none afterwards.
at::Tensor taken_gradient(torch::nn::Module& network);

/// The gradient of a batch by the trainer's own code.
at::Tensor gradient(const stages::TrainingStep& step, torch::nn::Module& network,
                    const stages::Batch& batch, const stages::StepPlan& plan = {});
/// What adding up the mean losses of parts of `size` gives, each divided by the number of parts.
at::Tensor summed_means(const stages::TrainingStep& step, torch::nn::Module& network,
                        const stages::Batch& batch, std::int64_t size);

/// How far `a` is from `b`, as a part of b's length.
double distance(const at::Tensor& a, const at::Tensor& b);

}  // namespace oom_claims
