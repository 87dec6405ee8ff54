#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace stages {

/// What a low-rank adapter adds to a linear layer: scaling · (x Aᵀ) Bᵀ.
struct LowRank {
  at::Tensor a, b;  // (rank, in), (out, rank)
  double scaling = 1;
};

/// x Wᵀ + b over the last dimension, torch's linear with torch's gradients in exact arithmetic;
/// `bias` may be undefined. Of `x` and `weight`, (out, in), that is kept which the gradients need.
/// What an adapter adds is added in place, and so is its share of the gradient of `x`; with one, a
/// gradient of the gradient is refused with std::logic_error.
///
/// On CPUs of which Processor says so, large products of float32 are oneDNN's, but for the gradient
/// of the weight: they are quicker than those of MKL, which torch takes, and round otherwise. The
/// choice depends on the processor and the shapes alone. Half types, autocast and other devices
/// have torch's own function; then there must be no adapter.
at::Tensor linear_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const std::optional<LowRank>& adapter = {});

/// Whether a CPU computes with it, or is planned to.
bool is_on_cpu(const at::Tensor& x);

/// Whether linear_layer() multiplies such tensors by torch's product: float32 or float64 on a CPU,
/// not under autocast, and none of the large products that are oneDNN's.
bool has_torch_product(const at::Tensor& x, const at::Tensor& weight);

/// Whether linear_layer() takes such tensors with an adapter of the type `adapter`.
bool takes_adapter(const at::Tensor& x, const at::Tensor& weight, at::ScalarType adapter);

}  // namespace stages
