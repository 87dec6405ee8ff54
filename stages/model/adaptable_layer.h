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

/// One of an adapter's two matrices. `weight` is uninitialized until it is drawn or loaded.
class LoraFactor : public torch::nn::Module {
 public:
  LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options);

  at::Tensor weight;
};

/// How a convolution moves over an image; each list is for rows, then columns.
struct ConvolutionSteps {
  std::vector<std::int64_t> stride, padding = {0, 0}, dilation = {1, 1};
};

/// A low-rank adapter (Hu et al. 2021, arXiv:2106.09685) of one layer: adds scaling · B(A(drop(x)))
/// to the layer's output for x. Children: lora_A, lora_B, and lora_dropout. For a linear layer A is
/// (rank, in) and B is (out, rank). For a convolution A is a convolution with the same size and
/// steps, (rank, in, height, width), and B is a 1 x 1 convolution, (out, rank, 1, 1).
///
/// Its weights are on the layer's device, in the layer's type or float32, whichever is wider:
/// adapters of a half-precision layer are trained in float32. Both require gradients.
class LoraAdapter : public torch::nn::Module {
 public:
  /// Creates an adapter for a layer with that weight. Convolutions use `steps`; the default is a
  /// patch embedding's steps, which read each pixel once. Throws std::invalid_argument if the rank
  /// is below 1.
  LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling, double dropout,
              std::optional<ConvolutionSteps> steps = {});

  /// Returns the adapter's output for `x`, the layer's input, in the adapter's type.
  at::Tensor forward(const at::Tensor& x) const;
  /// Returns scaling · B·A in the shape of the layer's weight. Adding it to the weight is
  /// equivalent to the adapter if nothing is dropped.
  at::Tensor product() const;

  std::int64_t rank() const { return a_->weight.size(0); }
  double scaling() const { return scaling_; }
  /// True if dropout is active in forward().
  bool drops() const { return dropout_->is_active(); }
  const at::Tensor& a() const { return a_->weight; }
  const at::Tensor& b() const { return b_->weight; }

 private:
  const double scaling_;
  const ConvolutionSteps steps_;  // used only by convolutions
  std::shared_ptr<LoraFactor> a_, b_;
  std::shared_ptr<Dropout> dropout_;
};

/// A layer with a `weight` (out, …) and a `bias` (out), which may be undefined. A low-rank adapter
/// can be attached to it. The adapter's weights then appear in the layer as lora_A.weight and
/// lora_B.weight; the layer's own parameters keep their names.
class AdaptableLayer : public PrecisionModule {
 public:
  /// Attaches `adapter`. Throws std::logic_error if there already is one.
  void attach(std::shared_ptr<LoraAdapter> adapter);
  /// Removes and returns the adapter; a merged weight stays merged. Throws std::logic_error if
  /// there is none.
  std::shared_ptr<LoraAdapter> detach();
  /// The attached adapter; null if there is none.
  const std::shared_ptr<LoraAdapter>& adapter() const { return adapter_; }

  /// Returns the weight plus the adapter's product(), summed in float32 or wider and cast to the
  /// weight's type. Throws std::domain_error if the sum is not finite.
  at::Tensor merged_weight() const;
  /// Replaces the weight with merged_weight(), in new memory, since other weights that are not
  /// merged may share the old memory. The adapter then has no effect and gets no gradient. Does
  /// nothing if there is no adapter or it is already merged.
  void merge();
  /// Returns the steps of a convolution; nullopt for other layers and for patch embeddings.
  virtual std::optional<ConvolutionSteps> steps() const { return {}; }

  at::Tensor weight, bias;

 protected:
  /// Returns the adapter for linear_layer() to add to the product of `x` and `used`, the weight
  /// after conversion. Returns nullopt if there is no active adapter, or if adapted() must compute
  /// the adapter's output, for example because of dropout.
  std::optional<LowRank> low_rank_for(const at::Tensor& x, const at::Tensor& used) const;
  /// Returns `output`, the layer's own result for `x`, plus the adapter's output for `x`, in the
  /// type of `output`.
  at::Tensor adapted(const at::Tensor& x, const at::Tensor& output) const;

 private:
  std::shared_ptr<LoraAdapter> adapter_;
  bool is_merged_ = false;
};

/// Returns a half-precision `weight` converted to the type of `x`, and any other weight unchanged.
at::Tensor widened(const at::Tensor& weight, const at::Tensor& x);
/// Returns `weight` for a product with `x`: widened(weight, x), except under autocast, which casts
/// both operands itself.
at::Tensor operand(const at::Tensor& weight, const at::Tensor& x);

}  // namespace stages
