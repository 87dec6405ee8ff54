#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "experiments/oom_claims/image_network.h"
#include "stages/train/gradient.h"

namespace oom_claims {

/// In float64, the distance between two gradients is below kEqual if they differ only by rounding,
/// and above kAnother if they are really different.
inline constexpr double kEqual = 1e-12, kAnother = 1e-3;

/// Returns a network in float64 on the CPU, in training mode, with random weights.
std::shared_ptr<ImageNetwork> double_network(const NetworkKind& kind);

/// Returns `samples` random images of 8 x 8 pixels in float64, and labels of three classes. The
/// first images are the same for every number of samples.
stages::Batch random_images(std::int64_t samples);

/// Returns the gradients of all parameters in one vector, with 0 for missing gradients, and clears
/// them in the network.
at::Tensor taken_gradient(torch::nn::Module& network);

/// Returns the gradient of a batch, computed by the trainer's own code.
at::Tensor gradient(const stages::TrainingStep& step, torch::nn::Module& network,
                    const stages::Batch& batch, const stages::StepPlan& plan = {});
/// Splits the batch into parts of `size` samples, and returns the gradient of the sum of their mean
/// losses, each divided by the number of parts.
at::Tensor summed_means(const stages::TrainingStep& step, torch::nn::Module& network,
                        const stages::Batch& batch, std::int64_t size);

/// Returns the distance of `a` from `b`, relative to the norm of `b`.
double distance(const at::Tensor& a, const at::Tensor& b);

}  // namespace oom_claims
