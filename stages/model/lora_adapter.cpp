#include "stages/model/lora_adapter.h"

#include <stdexcept>
#include <vector>

#include <torch/types.h>

namespace stages {
namespace {

/// `shape` with other sizes in front.
std::vector<std::int64_t> factor_shape(std::int64_t outputs, at::IntArrayRef rest) {
  std::vector<std::int64_t> shape = {outputs};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

}  // namespace

LoraFactor::LoraFactor(at::IntArrayRef shape, const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty(shape, options))) {}

LoraAdapter::LoraAdapter(const at::Tensor& layer_weight, std::int64_t rank, double scaling, double dropout)
    : scaling_(scaling) {
  if (rank < 1) throw std::invalid_argument("an adapter's rank is at least 1");
  const auto options =
      at::TensorOptions(layer_weight.device()).dtype(at::promote_types(layer_weight.scalar_type(), at::kFloat));
  std::vector<std::int64_t> of_b = {layer_weight.size(0), rank};
  of_b.resize(static_cast<std::size_t>(layer_weight.dim()), 1);
  a_ = register_module("lora_A",
                       std::make_shared<LoraFactor>(factor_shape(rank, layer_weight.sizes().slice(1)), options));
  b_ = register_module("lora_B", std::make_shared<LoraFactor>(of_b, options));
  dropout_ = register_module("lora_dropout", std::make_shared<Dropout>(dropout));
}

at::Tensor LoraAdapter::forward(const at::Tensor& x) const {
  const at::Tensor kept = dropout_->forward(x.to(a().scalar_type()));
  // The narrow tensor is scaled, not the wide one.
  if (a().dim() == 4) return torch::conv2d(torch::conv2d(kept, a(), {}, /*stride=*/a().size(2)) * scaling_, b());
  return torch::linear(torch::linear(kept, a()) * scaling_, b());
}

at::Tensor LoraAdapter::product() const {
  const std::vector<std::int64_t> shape = factor_shape(b().size(0), a().sizes().slice(1));
  return b().flatten(1).mm(a().flatten(1)).mul(scaling_).view(shape);
}

}  // namespace stages
