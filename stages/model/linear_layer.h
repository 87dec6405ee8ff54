#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace stages {

/// The output that a low-rank adapter adds to a linear layer: scaling · (x Aᵀ) Bᵀ.
struct LowRank {
  at::Tensor a, b;  // (rank, in), (out, rank)
  double scaling = 1;
};

/// Returns x Wᵀ + b over the last dimension. The result and its gradients equal those of torch's
/// linear in exact arithmetic. `weight` is (out, in); `bias` may be undefined. Saves `x` and
/// `weight` only if the gradients need them. An adapter's output is added in place, and so is its
/// share of the gradient of `x`; with an adapter, double backward throws std::logic_error.
///
/// On CPUs with Processor::onednn_multiplies, oneDNN computes large float32 products, except for
/// the weight gradient. It is faster there than MKL, which torch uses, but rounds differently. The
/// choice depends only on the processor and the shapes. Half-precision types, autocast and other
/// devices use torch's own function and do not support adapters.
at::Tensor linear_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const std::optional<LowRank>& adapter = {});

/// True if computations with `x` run on a CPU. For a Meta tensor, the planned device decides.
bool is_on_cpu(const at::Tensor& x);

/// True if linear_layer() multiplies these tensors with torch's product: float32 or float64 on a
/// CPU without autocast, except for the large products that oneDNN computes.
bool has_torch_product(const at::Tensor& x, const at::Tensor& weight);

/// True if linear_layer() supports these tensors together with an adapter of type `adapter`.
bool takes_adapter(const at::Tensor& x, const at::Tensor& weight, at::ScalarType adapter);

}  // namespace stages
