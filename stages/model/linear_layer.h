#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace stages {

/// The output that a low-rank adapter adds to a linear layer: scaling · (x Aᵀ) Bᵀ.
struct LowRank {
  at::Tensor a, b;  // (rank, in), (out, rank)
  double scaling = 1;
};

/// x Wᵀ + b over the last dimension: torch's linear, with torch's gradients in exact arithmetic;
/// `bias` may be undefined. Of `x` and `weight`, (out, in), it keeps what the gradients need. An
/// adapter's output is added in place, and so is its share of the gradient of `x`; with an adapter,
/// a gradient of the gradient is refused with std::logic_error.
///
/// On CPUs for which Processor says so, oneDNN computes large float32 products, except for the
/// gradient of the weight: it is faster than MKL, which torch uses, and rounds differently. The
/// choice depends only on the processor and the shapes. Half types, autocast and other devices use
/// torch's own function; then there must be no adapter.
at::Tensor linear_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const std::optional<LowRank>& adapter = {});

/// Whether a CPU computes with `x`, or is planned to.
bool is_on_cpu(const at::Tensor& x);

/// Whether linear_layer() multiplies such tensors by torch's product: float32 or float64 on a CPU,
/// not under autocast, and not one of the large products that oneDNN computes.
bool has_torch_product(const at::Tensor& x, const at::Tensor& weight);

/// Whether linear_layer() supports such tensors with an adapter of the type `adapter`.
bool takes_adapter(const at::Tensor& x, const at::Tensor& weight, at::ScalarType adapter);

}  // namespace stages
