#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/module.h>

#include "stages/random/dropout.h"

namespace stages {

/// One of an adapter's two weights: `weight`, unset until somebody initialises or loads it.
class LoraFactor : public torch::nn::Module {
 public:
  LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options);

  at::Tensor weight;
};

/// A low-rank adapter (Hu et al. 2021, arXiv:2106.09685) of one layer: adds scaling · B(A(drop(x))) to what the layer
/// makes of x. Children: lora_A, lora_B, and lora_dropout. Of a linear layer A is (rank, in) and B (out, rank); of a
/// patch embedding A is a convolution of its size, (rank, 3, patch, patch), and B one of size 1, (out, rank, 1, 1).
///
/// Its weights are on the layer's device, and of the layer's type or float32, whichever is the wider: adapters of a
/// half-precision layer learn in float32. Both need a gradient.
class LoraAdapter : public torch::nn::Module {
 public:
  /// For a layer with that weight. Throws std::invalid_argument on a rank below 1.
  LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling, double dropout);

  /// What is added for `x`, the layer's input, in the adapter's type.
  at::Tensor forward(const at::Tensor& x) const;
  /// scaling · B·A in the shape of the layer's weight: what stands for the adapter where nothing is dropped.
  at::Tensor product() const;

  std::int64_t rank() const { return a_->weight.size(0); }
  double scaling() const { return scaling_; }
  /// Whether forward() drops anything now.
  bool drops() const { return dropout_->is_active(); }
  const at::Tensor& a() const { return a_->weight; }
  const at::Tensor& b() const { return b_->weight; }

 private:
  const double scaling_;
  std::shared_ptr<LoraFactor> a_, b_;
  std::shared_ptr<Dropout> dropout_;
};

}  // namespace stages
