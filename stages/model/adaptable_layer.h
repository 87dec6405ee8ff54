#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <torch/nn/module.h>

#include "stages/model/linear_layer.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"

namespace stages {

/// One of an adapter's two weights: `weight`, unset until somebody initialises or loads it.
class LoraFactor : public torch::nn::Module {
 public:
  LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options);

  at::Tensor weight;
};

/// A low-rank adapter (Hu et al. 2021, arXiv:2106.09685) of one layer: adds scaling · B(A(drop(x)))
/// to what the layer makes of x. Children: lora_A, lora_B, and lora_dropout. Of a linear layer A is
/// (rank, in) and B (out, rank); of a patch embedding A is a convolution of its size, (rank, 3,
/// patch, patch), and B one of size 1, (out, rank, 1, 1).
///
/// Its weights are on the layer's device, and of the layer's type or float32, whichever is the
/// wider: adapters of a half-precision layer learn in float32. Both need a gradient.
class LoraAdapter : public torch::nn::Module {
 public:
  /// For a layer with that weight. Throws std::invalid_argument on a rank below 1.
  LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling, double dropout);

  /// What is added for `x`, the layer's input, in the adapter's type.
  at::Tensor forward(const at::Tensor& x) const;
  /// scaling · B·A in the shape of the layer's weight: what stands for the adapter where nothing is
  /// dropped.
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

/// A layer of `weight` (out, …) and `bias` (out), undefined where it has none, to which a low-rank
/// adapter can be attached. The adapter's weights become children of the layer, lora_A.weight and
/// lora_B.weight; its own keep their names.
class AdaptableLayer : public PrecisionModule {
 public:
  /// Throws std::logic_error where there is an adapter already.
  void attach(std::shared_ptr<LoraAdapter> adapter);
  /// Takes it off again; a merged weight stays as it is. Throws std::logic_error where there is
  /// none.
  std::shared_ptr<LoraAdapter> detach();
  /// Null: none.
  const std::shared_ptr<LoraAdapter>& adapter() const { return adapter_; }

  /// The weight that gives at once what the layer and its adapter give, in the weight's type but
  /// summed in float32 at least. Throws std::domain_error where it is not finite.
  at::Tensor merged_weight() const;
  /// Puts merged_weight() in the weight's place, in memory of its own: the weight may share its
  /// memory with others that are not merged. The adapter then takes no part and gets no gradient.
  /// Does nothing where there is no adapter or it is merged.
  void merge();

  at::Tensor weight, bias;

 protected:
  /// The adapter as linear_layer() adds it to the product of `x` and the weight as it is `used`;
  /// nullopt where there is none, or none that takes part, or where it drops something, and
  /// adapted() does what there is to do.
  std::optional<LowRank> low_rank_for(const at::Tensor& x, const at::Tensor& used) const;
  /// `output`, what the layer alone makes of `x`, with what its adapter adds, in the type of
  /// `output`.
  at::Tensor adapted(const at::Tensor& x, const at::Tensor& output) const;

 private:
  std::shared_ptr<LoraAdapter> adapter_;
  bool is_merged_ = false;
};

/// A weight that is held in half precision, in the type of a wider `x`; any other as it is.
at::Tensor widened(const at::Tensor& weight, const at::Tensor& x);
/// The same for a product with `x`, whose operands autocast makes equal where it is on.
at::Tensor operand(const at::Tensor& weight, const at::Tensor& x);

}  // namespace stages
