#pragma once

#include <memory>
#include <optional>

#include "stages/model/lora_adapter.h"
#include "stages/model/linear_layer.h"
#include "stages/numerics/precision_module.h"

namespace stages {

/// A layer of `weight` (out, …) and `bias` (out), undefined where it has none, to which a low-rank adapter can be
/// attached. The adapter's weights become children of the layer, lora_A.weight and lora_B.weight; its own keep their
/// names.
class AdaptableLayer : public PrecisionModule {
 public:
  /// Throws std::logic_error where there is an adapter already.
  void attach(std::shared_ptr<LoraAdapter> adapter);
  /// Takes it off again; a merged weight stays as it is. Throws std::logic_error where there is none.
  std::shared_ptr<LoraAdapter> detach();
  /// Null: none.
  const std::shared_ptr<LoraAdapter>& adapter() const { return adapter_; }

  /// The weight that gives at once what the layer and its adapter give, in the weight's type but summed in float32 at
  /// least. Throws std::domain_error where it is not finite.
  at::Tensor merged_weight() const;
  /// Puts merged_weight() in the weight's place, in memory of its own: the weight may share its memory with others that
  /// are not merged. The adapter then takes no part and gets no gradient. Does nothing
  /// where there is no adapter or it is merged.
  void merge();

  at::Tensor weight, bias;

 protected:
  /// The adapter as linear_layer() adds it to the product of `x` and the weight as it is `used`; nullopt where there is
  /// none, or none that takes part, or where it drops something, and adapted() does what there is to do.
  std::optional<LowRank> low_rank_for(const at::Tensor& x, const at::Tensor& used) const;
  /// `output`, what the layer alone makes of `x`, with what its adapter adds, in the type of `output`.
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
