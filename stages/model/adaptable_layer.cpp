#include "stages/model/adaptable_layer.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

/// Returns the shape (outputs, rest…).
std::vector<std::int64_t> factor_shape(std::int64_t outputs, at::IntArrayRef rest) {
  std::vector<std::int64_t> shape = {outputs};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

ConvolutionSteps steps_of_patches(const at::Tensor& weight) {
  return {.stride = weight.sizes().slice(std::min<std::size_t>(2, weight.sizes().size())).vec()};
}

}  // namespace

LoraFactor::LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty(shape, options))) {}

LoraAdapter::LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling,
                         double dropout, std::optional<ConvolutionSteps> steps)
    : scaling_(scaling), steps_(steps ? *std::move(steps) : steps_of_patches(layer_weight)) {
  if (rank < 1) throw std::invalid_argument("an adapter's rank must be at least 1");
  const auto options = at::TensorOptions(layer_weight.device())
                           .dtype(at::promote_types(layer_weight.scalar_type(), at::kFloat));
  std::vector<std::int64_t> of_b = {layer_weight.size(0), rank};
  of_b.resize(static_cast<std::size_t>(layer_weight.dim()), 1);
  a_ = register_module("lora_A", std::make_shared<LoraFactor>(
                                     factor_shape(rank, layer_weight.sizes().slice(1)), options));
  b_ = register_module("lora_B", std::make_shared<LoraFactor>(of_b, options));
  dropout_ = register_module("lora_dropout", std::make_shared<Dropout>(dropout));
}

at::Tensor LoraAdapter::forward(const at::Tensor& x) const {
  const at::Tensor kept = dropout_->forward(x.to(a().scalar_type()));
  // Scales the narrow tensor, not the wide one.
  if (a().dim() == 4) {
    const at::Tensor narrow =
        torch::conv2d(kept, a(), {}, steps_.stride, steps_.padding, steps_.dilation);
    return torch::conv2d(narrow * scaling_, b());
  }
  return torch::linear(torch::linear(kept, a()) * scaling_, b());
}

at::Tensor LoraAdapter::product() const {
  const std::vector<std::int64_t> shape = factor_shape(b().size(0), a().sizes().slice(1));
  return b().flatten(1).mm(a().flatten(1)).mul(scaling_).view(shape);
}

void AdaptableLayer::attach(std::shared_ptr<LoraAdapter> adapter) {
  if (adapter_) throw std::logic_error("the layer already has an adapter");
  adapter_ = std::move(adapter);
  adapter_->train(is_training());
  for (const auto& child : adapter_->named_children()) register_module(child.key(), child.value());
  is_merged_ = false;
}

std::shared_ptr<LoraAdapter> AdaptableLayer::detach() {
  if (!adapter_) throw std::logic_error("the layer has no adapter");
  for (const auto& child : adapter_->named_children()) unregister_module(child.key());
  is_merged_ = false;
  return std::move(adapter_);
}

at::Tensor AdaptableLayer::merged_weight() const {
  if (!adapter_ || is_merged_) return weight;
  const torch::NoGradGuard no_graph;
  const at::Tensor product = adapter_->product();
  const at::Tensor sum = (weight.to(product.scalar_type()) + product).to(weight.scalar_type());
  if (!torch::isfinite(sum).all().item<bool>())
    throw std::domain_error("the merged weight is not finite");
  return sum;
}

void AdaptableLayer::merge() {
  if (!adapter_ || is_merged_) return;
  weight.set_data(merged_weight());
  is_merged_ = true;
}

at::Tensor AdaptableLayer::adapted(const at::Tensor& x, const at::Tensor& output) const {
  if (!adapter_ || is_merged_) return output;
  return (output + adapter_->forward(x)).to(output.scalar_type());
}

std::optional<LowRank> AdaptableLayer::low_rank_for(const at::Tensor& x,
                                                    const at::Tensor& used) const {
  if (!adapter_ || is_merged_ || adapter_->drops() || adapter_->a().dim() != 2) return {};
  if (!takes_adapter(x, used, adapter_->a().scalar_type())) return {};
  return LowRank{adapter_->a(), adapter_->b(), adapter_->scaling()};
}

at::Tensor widened(const at::Tensor& weight, const at::Tensor& x) {
  if (!weight.defined() || weight.scalar_type() == x.scalar_type()) return weight;
  const bool is_half = weight.scalar_type() == at::kHalf || weight.scalar_type() == at::kBFloat16;
  return is_half ? weight.to(x.scalar_type()) : weight;
}

at::Tensor operand(const at::Tensor& weight, const at::Tensor& x) {
  return current_precision(x.device()) == Precision::kFp32 ? widened(weight, x) : weight;
}

}  // namespace stages
