#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <torch/nn/module.h>

#include "stages/model/linear_layer.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"

namespace stages {

/// One of an adapter's weights. `weight` is uninitialized until it is drawn or loaded.
class LoraFactor : public torch::nn::Module {
 public:
  LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options);
  /// Adds the buffer `start`, which holds the value from which training starts.
  void keep_start();

  at::Tensor weight, start;  ///< both have the same shape; `start` is undefined unless it is kept
};

/// An adapter's parts other than A and B.
struct LoraVariant {
  /// Weight-decomposed adaptation (DoRA; Liu et al. 2024, arXiv:2402.09353): a trained norm for
  /// each output of the layer.
  bool has_magnitude = false;
  /// Principal adaptation (PiSSA; Meng et al. 2024, arXiv:2404.02948): A and B start from the
  /// weight's largest singular values, and their initial product is subtracted from the weight.
  bool is_principal = false;
};

/// How a convolution moves over an image; each list is for rows, then columns.
struct ConvolutionSteps {
  std::vector<std::int64_t> stride, padding = {0, 0}, dilation = {1, 1};
};

/// A low-rank adapter (Hu et al. 2021, arXiv:2106.09685) for one layer: adds scaling ·
/// B(A(drop(x))) to the layer's output for x. Children: lora_A, lora_B, and lora_dropout. For a
/// linear layer, A has shape (rank, in) and B (out, rank). For a convolution, A is a convolution
/// with the same kernel size, stride, padding and dilation, of shape (rank, in, height, width), and
/// B is a 1 x 1 convolution, of shape (out, rank, 1, 1).
///
/// If there is a magnitude, it is a child called lora_magnitude_vector, of shape (out) or (1, out,
/// 1, 1), and each output's weights are rescaled so that their L2 norm is the magnitude. As in the
/// paper, no gradient flows through the norm of the weights. A principal adapter (PiSSA) keeps the
/// initial values of A and B as buffers and leaves the layer's weight unchanged: it adds scaling ·
/// (B·A - B₀·A₀), which is zero initially.
///
/// The adapter's weights are on the layer's device, in the layer's type or float32, whichever is
/// wider: adapters of a half-precision layer are trained in float32. All require gradients.
class LoraAdapter : public torch::nn::Module {
 public:
  /// Creates an adapter for a layer with the given weight. Convolutions use `steps`; by default, as
  /// in a patch embedding, the stride is the kernel size and there is no padding. Throws
  /// std::invalid_argument if the rank is below 1.
  LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling, double dropout,
              std::optional<ConvolutionSteps> steps = {}, LoraVariant variant = {});

  /// Once A and B have been drawn, initializes the parts that depend on the layer's weight: a
  /// principal adapter's A and B, and the magnitude.
  void start_from(const at::Tensor& layer_weight);

  /// Returns `x`, the layer's input, in the adapter's type, with dropout.
  at::Tensor dropped(const at::Tensor& x) const;
  /// Returns scaling · B(A(x)) in the adapter's type.
  at::Tensor trained_output(const at::Tensor& x) const;
  /// Returns scaling · B₀(A₀(x)) of a principal adapter.
  at::Tensor start_output(const at::Tensor& x) const;
  /// Returns the adapter's output for `x`, the layer's input, in the adapter's type, without the
  /// magnitude.
  at::Tensor forward(const at::Tensor& x) const;
  /// Returns two factors whose product is equivalent to forward() if nothing is dropped: A and B
  /// or, for a principal adapter, [A; A₀] and [B, -B₀], with twice the rank. They are shaped like A
  /// and B.
  LowRank factors() const;
  /// Returns the product of factors(), multiplied by the scaling, in the shape of the layer's
  /// weight. Adding it to the weight is equivalent to forward().
  at::Tensor product() const;
  /// Returns the magnitude divided by the norms of the weight plus product(), in the magnitude's
  /// shape.
  at::Tensor rescaling(const at::Tensor& layer_weight) const;

  std::int64_t rank() const { return a_->weight.size(0); }
  double scaling() const { return scaling_; }
  /// True if dropout is active in forward().
  bool drops() const { return dropout_->is_active(); }
  const at::Tensor& a() const { return a_->weight; }
  const at::Tensor& b() const { return b_->weight; }
  bool is_principal() const { return a_->start.defined(); }
  bool has_magnitude() const { return magnitude_ != nullptr; }
  const at::Tensor& magnitude() const { return magnitude_->weight; }

 private:
  at::Tensor output(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b) const;
  at::Tensor norms(const at::Tensor& layer_weight) const;

  const double scaling_;
  const ConvolutionSteps steps_;  // used only by convolutions
  std::shared_ptr<LoraFactor> a_, b_, magnitude_;
  std::shared_ptr<Dropout> dropout_;
};

/// A layer with a `weight` (out, …) and a `bias` (out), which may be undefined. A low-rank adapter
/// can be attached to it. The adapter's weights then appear in the layer as lora_A.weight,
/// lora_B.weight and so on; the layer's own parameters keep their names.
class AdaptableLayer : public PrecisionModule {
 public:
  /// Attaches `adapter`. Throws std::logic_error if there already is one.
  void attach(std::shared_ptr<LoraAdapter> adapter);
  /// Removes and returns the adapter; a merged weight stays merged. Throws std::logic_error if
  /// there is none.
  std::shared_ptr<LoraAdapter> detach();
  /// The attached adapter; null if there is none.
  const std::shared_ptr<LoraAdapter>& adapter() const { return adapter_; }

  /// Returns the weight plus the adapter's product(), times its rescaling() if it has a magnitude,
  /// computed in float32 or wider and cast to the weight's type. Throws std::domain_error if the
  /// result is not finite.
  at::Tensor merged_weight() const;
  /// Replaces the weight with merged_weight(), in new memory, since the old memory may be shared
  /// with other weights that are not merged. The adapter then has no effect and gets no gradient.
  /// Does nothing if there is no adapter or it is already merged.
  void merge();
  /// Returns the stride, padding and dilation of a convolution; nullopt for other layers and for
  /// patch embeddings.
  virtual std::optional<ConvolutionSteps> steps() const { return {}; }

  at::Tensor weight, bias;

 protected:
  /// Returns the layer's own result for `x` without the bias.
  virtual at::Tensor unbiased(const at::Tensor& x) const = 0;
  /// Returns the adapter for linear_layer() to add to the product of `x` and `used`, the weight
  /// after conversion. Returns nullopt if there is no active adapter, or if adapted() must compute
  /// the adapter's output, for example because of dropout.
  std::optional<LowRank> low_rank_for(const at::Tensor& x, const at::Tensor& used) const;
  /// Returns `output`, the layer's own result for `x`, with the adapter applied, in the type of
  /// `output`.
  at::Tensor adapted(const at::Tensor& x, const at::Tensor& output) const;
  /// True if the adapter has a magnitude. If nothing is dropped, the layer's result is then the
  /// rescaled() sum of unbiased() and the adapter's output.
  bool is_rescaled() const { return adapter_ && !is_merged_ && adapter_->has_magnitude(); }
  at::Tensor rescaled(const at::Tensor& sum) const;

 private:
  at::Tensor adapted_with_magnitude(const at::Tensor& x, const at::Tensor& output) const;

  std::shared_ptr<LoraAdapter> adapter_;
  bool is_merged_ = false;
};

/// True if `weight`, a weight's full name, belongs to an adapter.
bool is_of_adapter(std::string_view weight);

/// Returns a half-precision `weight` converted to the type of `x`, and any other weight unchanged.
at::Tensor widened(const at::Tensor& weight, const at::Tensor& x);
/// Returns `weight` ready to be multiplied by `x`: widened(weight, x), except under autocast, which
/// casts both operands itself.
at::Tensor operand(const at::Tensor& weight, const at::Tensor& x);

}  // namespace stages
