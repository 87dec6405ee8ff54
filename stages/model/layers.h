#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/model/adaptable_layer.h"

namespace stages {

// The constructors of torch::nn's layers draw weights from the global random number generator,
// always on the CPU. The layers below leave their weights uninitialized: the code that creates a
// network initializes (stages/model/initializer.h) or loads them, and a network on the Meta device
// needs no memory. Half-precision weights are converted to the type of wider inputs when they are
// used.

/// y = x Wᵀ + b over the last dimension; `weight` (out, in), `bias` (out) or undefined.
class Linear : public AdaptableLayer {
 public:
  Linear(std::int64_t in, std::int64_t out, bool with_bias, const at::TensorOptions& options);
  virtual at::Tensor forward(const at::Tensor& x) const;

 protected:
  at::Tensor unbiased(const at::Tensor& x) const override;
};

/// Normalization over the last dimension; `weight` and `bias` (width).
class LayerNorm : public PrecisionModule {
 public:
  LayerNorm(std::int64_t width, double epsilon, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;

 private:
  const double epsilon_;
};

/// Multiplies each channel of the last dimension by its own weight, `lambda1` (width).
class LayerScale : public PrecisionModule {
 public:
  LayerScale(std::int64_t width, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor lambda1_;
};

/// A convolution with a stride equal to its size. `weight` is (width, 3, patch, patch); `bias` is
/// (width) or undefined.
class PatchEmbedding : public AdaptableLayer {
 public:
  PatchEmbedding(std::int64_t patch, std::int64_t width, bool with_bias,
                 const at::TensorOptions& options);
  /// Maps (n, 3, height, width) to (n, patches, width), with the patches row by row.
  at::Tensor forward(const at::Tensor& pixels) const;

 protected:
  at::Tensor unbiased(const at::Tensor& pixels) const override;
};

/// One vector per position; `weight` (positions, width).
class PositionEmbedding : public torch::nn::Module {
 public:
  PositionEmbedding(std::int64_t positions, std::int64_t width, const at::TensorOptions& options);

  at::Tensor weight;
};

/// Returns `x` divided by its length along the last dimension.
at::Tensor with_unit_length(const at::Tensor& x);

/// Returns the convolution of images `x` (n, channels, height, width) with `weight` (out, channels,
/// patch, patch) and a stride of `patch`; `bias` may be undefined. The result, (n, out, height /
/// patch, width / patch), equals torch's conv2d in exact arithmetic.
///
/// On a CPU in float32 or float64, linear_layer() multiplies a matrix of patches by the weight, and
/// the result is channels_last. The gradients need `x`, but not that matrix. In all other cases,
/// and if the patches do not fill the images, torch's conv2d is used.
at::Tensor convolved_patches(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace stages
