#include "stages/model/adaptable_layer.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/precision_map.h"

namespace stages {
namespace {

/// Returns the shape (outputs, rest…).
std::vector<std::int64_t> factor_shape(std::int64_t outputs, at::IntArrayRef rest) {
  std::vector<std::int64_t> shape = {outputs};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

/// Returns the `bias` of a layer with that weight, in a shape and type that can be added to
/// `output`.
at::Tensor bias_for(const at::Tensor& output, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor result = bias.to(output.scalar_type());
  return weight.dim() == 4 ? result.view({1, -1, 1, 1}) : result;
}

ConvolutionSteps steps_of_patches(const at::Tensor& weight) {
  return {.stride = weight.sizes().slice(std::min<std::size_t>(2, weight.sizes().size())).vec()};
}

}  // namespace

LoraFactor::LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty(shape, options))) {}

void LoraFactor::keep_start() {
  start = register_buffer("start", torch::empty(weight.sizes(), weight.options()));
}

LoraAdapter::LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling,
                         double dropout, std::optional<ConvolutionSteps> steps, LoraVariant variant)
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
  if (variant.is_principal) {
    a_->keep_start();
    b_->keep_start();
  }
  if (!variant.has_magnitude) return;
  std::vector<std::int64_t> of_magnitude = {layer_weight.size(0)};
  if (layer_weight.dim() == 4) of_magnitude = {1, layer_weight.size(0), 1, 1};
  magnitude_ =
      register_module("lora_magnitude_vector", std::make_shared<LoraFactor>(of_magnitude, options));
}

void LoraAdapter::start_from(const at::Tensor& layer_weight) {
  const torch::NoGradGuard no_graph;
  if (is_principal()) {
    const auto [u, s, vh] = torch::linalg_svd(layer_weight.to(a().scalar_type()),
                                              /*full_matrices=*/false);
    const at::Tensor roots = (s.slice(0, 0, rank()) / scaling_).sqrt();
    a_->weight.copy_(roots.unsqueeze(1) * vh.slice(0, 0, rank()));
    b_->weight.copy_(u.slice(1, 0, rank()) * roots);
    a_->start.copy_(a());
    b_->start.copy_(b());
  }
  if (has_magnitude()) magnitude_->weight.copy_(norms(layer_weight));
}

at::Tensor LoraAdapter::output(const at::Tensor& x, const at::Tensor& a,
                               const at::Tensor& b) const {
  // Scales the narrow tensor, not the wide one.
  if (a.dim() == 4) {
    const at::Tensor narrow =
        torch::conv2d(x, a, {}, steps_.stride, steps_.padding, steps_.dilation);
    return torch::conv2d(narrow * scaling_, b);
  }
  return torch::linear(torch::linear(x, a) * scaling_, b);
}

at::Tensor LoraAdapter::dropped(const at::Tensor& x) const {
  return dropout_->forward(x.to(a().scalar_type()));
}

at::Tensor LoraAdapter::trained_output(const at::Tensor& x) const {
  return output(x.to(a().scalar_type()), a(), b());
}

at::Tensor LoraAdapter::start_output(const at::Tensor& x) const {
  return output(x.to(a().scalar_type()), a_->start, b_->start);
}

at::Tensor LoraAdapter::forward(const at::Tensor& x) const {
  if (is_principal() && drops()) return trained_output(dropped(x)) - start_output(x);
  const LowRank both = factors();
  return output(dropped(x), both.a, both.b);
}

LowRank LoraAdapter::factors() const {
  if (!is_principal()) return {a(), b(), scaling_};
  return {torch::cat({a(), a_->start}), torch::cat({b(), -b_->start}, 1), scaling_};
}

at::Tensor LoraAdapter::product() const {
  const std::vector<std::int64_t> shape = factor_shape(b().size(0), a().sizes().slice(1));
  const LowRank both = factors();
  return both.b.flatten(1).mm(both.a.flatten(1)).mul(scaling_).view(shape);
}

at::Tensor LoraAdapter::norms(const at::Tensor& layer_weight) const {
  const torch::NoGradGuard no_graph;
  const ScopedPrecision exact(Precision::kFp32, layer_weight.device());
  const LowRank both = factors();
  const at::Tensor weight = layer_weight.flatten(1).to(both.b.scalar_type());
  // If all weights of an output are zero, they stay zero: 0 / 0 must not occur.
  return torch::addmm(weight, both.b.flatten(1), both.a.flatten(1), 1, scaling_)
      .norm(2, 1)
      .clamp_min(std::numeric_limits<float>::min())
      .view(magnitude().sizes());
}

at::Tensor LoraAdapter::rescaling(const at::Tensor& layer_weight) const {
  return magnitude() / norms(layer_weight);
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
  at::Tensor sum = weight.to(product.scalar_type()) + product;
  if (adapter_->has_magnitude()) {
    sum = sum.flatten(1)
              .mul(adapter_->rescaling(weight).view({weight.size(0), 1}))
              .view(weight.sizes());
  }
  sum = sum.to(weight.scalar_type());
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
  const at::Tensor sum =
      adapter_->has_magnitude() ? adapted_with_magnitude(x, output) : output + adapter_->forward(x);
  return sum.to(output.scalar_type());
}

/// With dropout, only the adapter's change to the layer is computed from the dropped input, as in
/// peft.
at::Tensor AdaptableLayer::adapted_with_magnitude(const at::Tensor& x,
                                                  const at::Tensor& output) const {
  const LoraAdapter& adapter = *adapter_;
  if (!adapter.drops()) {
    const at::Tensor base = bias.defined() ? output - bias_for(output, weight, bias) : output;
    return rescaled(base + adapter.forward(x));
  }
  const at::Tensor kept = adapter.dropped(x);
  at::Tensor whole = output, base = unbiased(kept);
  if (adapter.is_principal()) {
    whole = whole - adapter.start_output(x);
    base = base - adapter.start_output(kept);
  }
  return whole - base + (base + adapter.trained_output(kept)) * adapter.rescaling(weight);
}

at::Tensor AdaptableLayer::rescaled(const at::Tensor& sum) const {
  const at::Tensor product = sum * adapter_->rescaling(weight);
  return bias.defined() ? product + bias_for(product, weight, bias) : product;
}

std::optional<LowRank> AdaptableLayer::low_rank_for(const at::Tensor& x,
                                                    const at::Tensor& used) const {
  if (!adapter_ || is_merged_ || adapter_->drops() || adapter_->a().dim() != 2) return {};
  if (!takes_adapter(x, used, adapter_->a().scalar_type())) return {};
  return adapter_->factors();
}

bool is_of_adapter(std::string_view weight) { return weight.find(".lora_") != weight.npos; }

at::Tensor widened(const at::Tensor& weight, const at::Tensor& x) {
  if (!weight.defined() || weight.scalar_type() == x.scalar_type()) return weight;
  const bool is_half = weight.scalar_type() == at::kHalf || weight.scalar_type() == at::kBFloat16;
  return is_half ? weight.to(x.scalar_type()) : weight;
}

at::Tensor operand(const at::Tensor& weight, const at::Tensor& x) {
  return current_precision(x.device()) == Precision::kFp32 ? widened(weight, x) : weight;
}

}  // namespace stages
