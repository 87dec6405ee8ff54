#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "stages/plan/processor.h"

namespace stages::meta {

// The families of shape functions, which register_meta_kernels() registers: at the Meta device, and where an operator
// is chosen by device, above autograd.
void register_convolutions(torch::Library& meta);
void register_products(torch::Library& meta);
void register_norms(torch::Library& meta);
void register_attention(torch::Library& meta, torch::Library& above_autograd);
void register_losses(torch::Library& meta);
void register_pointwise(torch::Library& meta);
void register_optimizers(torch::Library& meta);
/// Autocast of Meta tensors, at a key of its own, and that this key means nothing to all other operators.
void register_autocast(torch::Library& casting, torch::Library& others);

/// True where the traced kernels are a CPU's.
bool on_cpu();
/// The CPU's threads.
std::int64_t threads();
/// The CPU itself.
const Processor& processor();
/// Whether its oneDNN unfolds images for all convolutions.
bool unfolds_images();
/// True where oneDNN computes convolutions and products of this type.
bool onednn_computes(at::ScalarType type);

/// True of bfloat16 and float16.
bool is_half(const at::Tensor& x);

/// Memory that a kernel may take and gives back before it returns: `shape` of the type and device of `options`.
at::Tensor scratch(at::IntArrayRef shape, const at::TensorOptions& options);

/// The options of statistics of `x`: of half types they are float32.
at::TensorOptions statistics_of(const at::Tensor& x);

}  // namespace stages::meta
