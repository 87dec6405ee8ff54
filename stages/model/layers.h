#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/model/adaptable_layer.h"

namespace stages {

// The layers of torch::nn fill their weights from the global random generator when they are made,
// and always on the CPU. These leave them uninitialized: the code that makes a network initialises
// it (stages/model/initializer.h) or loads it, and a network on the Meta device costs no memory.
// Weights may be held in half precision with wider inputs; they are then widened when used.

/// y = x Wᵀ + b over the last dimension; `weight` (out, in), `bias` (out) or undefined.
class Linear : public AdaptableLayer {
 public:
  Linear(std::int64_t in, std::int64_t out, bool with_bias, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
};

/// Normalisation over the last dimension; `weight` and `bias` (width).
class LayerNorm : public PrecisionModule {
 public:
  LayerNorm(std::int64_t width, double epsilon, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;

 private:
  const double epsilon_;
};

/// A convolution whose stride is its size; `weight` (width, 3, patch, patch), `bias` (width) or
/// undefined.
class PatchEmbedding : public AdaptableLayer {
 public:
  PatchEmbedding(std::int64_t patch, std::int64_t width, bool with_bias,
                 const at::TensorOptions& options);
  /// (n, 3, height, width) to (n, patches, width), patches row by row.
  at::Tensor forward(const at::Tensor& pixels) const;
};

/// One vector per position; `weight` (positions, width).
class PositionEmbedding : public torch::nn::Module {
 public:
  PositionEmbedding(std::int64_t positions, std::int64_t width, const at::TensorOptions& options);

  at::Tensor weight;
};

/// The convolution of images `x` (n, channels, height, width) with `weight` (out, channels, patch,
/// patch), whose stride is its size; `bias` may be undefined. The result is (n, out, height /
/// patch, width / patch), torch's conv2d in exact arithmetic.
///
/// On a CPU in float32 or float64 it is the product of a matrix of patches, as linear_layer()
/// computes it, and the result is channels_last. Of the images only `x` is kept for the gradients.
/// Elsewhere, and if patches do not fill the images, it is torch's own.
at::Tensor convolved_patches(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace stages
