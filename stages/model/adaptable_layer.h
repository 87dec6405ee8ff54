#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include "stages/model/linear_layer.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"

namespace stages {

/// One of an adapter's two weights: `weight`, which is uninitialized until it is drawn or loaded.
class LoraFactor : public torch::nn::Module {
 public:
  LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options);

  at::Tensor weight;
};

/// How a convolution moves over an image: rows, then columns.
struct ConvolutionSteps {
  std::vector<std::int64_t> stride, padding = {0, 0}, dilation = {1, 1};
};

/// A low-rank adapter (Hu et al. 2021, arXiv:2106.09685) of one layer: adds scaling · B(A(drop(x)))
/// to the layer's output for x. Children: lora_A, lora_B, and lora_dropout. For a linear layer A is
/// (rank, in) and B (out, rank). For a convolution A is one of its size and steps, (rank, in,
/// height, width), and B one of size 1, (out, rank, 1, 1).
///
/// Its weights are on the layer's device, in the layer's type or float32, whichever is wider:
/// adapters of a half-precision layer are trained in float32. Both need a gradient.
class LoraAdapter : public torch::nn::Module {
 public:
  /// For a layer with that weight; `steps` are those of a convolution, by default those of a patch
  /// embedding, which touches each pixel once. Throws std::invalid_argument if the rank is below 1.
  LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling, double dropout,
              std::optional<ConvolutionSteps> steps = {});

  /// The adapter's output for `x`, the layer's input, in the adapter's type.
  at::Tensor forward(const at::Tensor& x) const;
  /// scaling · B·A in the shape of the layer's weight: equivalent to the adapter if nothing is
  /// dropped.
  at::Tensor product() const;

  std::int64_t rank() const { return a_->weight.size(0); }
  double scaling() const { return scaling_; }
  /// Whether forward() currently drops anything.
  bool drops() const { return dropout_->is_active(); }
  const at::Tensor& a() const { return a_->weight; }
  const at::Tensor& b() const { return b_->weight; }

 private:
  const double scaling_;
  const ConvolutionSteps steps_;  // of a convolution
  std::shared_ptr<LoraFactor> a_, b_;
  std::shared_ptr<Dropout> dropout_;
};

/// A layer of `weight` (out, …) and `bias` (out), which may be undefined, to which a low-rank
/// adapter can be attached. The adapter's weights become children of the layer, lora_A.weight and
/// lora_B.weight; the layer's own keep their names.
class AdaptableLayer : public PrecisionModule {
 public:
  /// Throws std::logic_error if there already is an adapter.
  void attach(std::shared_ptr<LoraAdapter> adapter);
  /// Removes the adapter; a merged weight stays merged. Throws std::logic_error if there is none.
  std::shared_ptr<LoraAdapter> detach();
  /// Null if there is none.
  const std::shared_ptr<LoraAdapter>& adapter() const { return adapter_; }

  /// The weight that computes layer and adapter in one, in the weight's type but summed in float32
  /// at least. Throws std::domain_error if it is not finite.
  at::Tensor merged_weight() const;
  /// Replaces the weight by merged_weight(), in new memory: the weight may share its memory with
  /// others that are not merged. The adapter then has no effect and gets no gradient. Does nothing
  /// if there is no adapter or it is already merged.
  void merge();
  /// Of a convolution other than a patch embedding.
  virtual std::optional<ConvolutionSteps> steps() const { return {}; }

  at::Tensor weight, bias;

 protected:
  /// The adapter as linear_layer() adds it to the product of `x` and `used`, the weight as it is
  /// used. nullopt if there is no active adapter, or if adapted() must compute it, for example
  /// because it drops something.
  std::optional<LowRank> low_rank_for(const at::Tensor& x, const at::Tensor& used) const;
  /// `output`, the layer's own result for `x`, plus that of its adapter, in the type of `output`.
  at::Tensor adapted(const at::Tensor& x, const at::Tensor& output) const;

 private:
  std::shared_ptr<LoraAdapter> adapter_;
  bool is_merged_ = false;
};

/// The weight converted to the type of a wider `x` if it is in half precision; otherwise unchanged.
at::Tensor widened(const at::Tensor& weight, const at::Tensor& x);
/// The same for a product with `x`; under autocast the weight is unchanged, since autocast casts
/// both operands.
at::Tensor operand(const at::Tensor& weight, const at::Tensor& x);

}  // namespace stages
