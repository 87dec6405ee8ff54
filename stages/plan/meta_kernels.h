#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "stages/plan/memory_trace.h"

namespace stages {

/// Gives the Meta device the operators that LibTorch has no Meta kernel for in C++: shape
/// functions, which allocate what the kernels of the living trace's backend allocate, their
/// temporaries included; without a trace those of a CPU with one thread. To be called before a dry
/// run; calls after the first do nothing.
void register_meta_kernels();

}  // namespace stages

namespace stages::meta {

// The families of shape functions, which register_meta_kernels() registers: at the Meta device, and
// where an operator is chosen by device, above autograd.
void register_convolutions(torch::Library& meta);
void register_products(torch::Library& meta);
void register_norms(torch::Library& meta);
void register_attention(torch::Library& meta, torch::Library& above_autograd);
void register_losses(torch::Library& meta);
void register_pointwise(torch::Library& meta);
void register_optimizers(torch::Library& meta);
/// Autocast of Meta tensors, at a key of its own, and that this key means nothing to all other
/// operators.
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

/// Memory that a kernel may take and gives back before it returns: `shape` of the type and device
/// of `options`.
at::Tensor scratch(at::IntArrayRef shape, const at::TensorOptions& options);

/// The options of statistics of `x`: of half types they are float32.
at::TensorOptions statistics_of(const at::Tensor& x);

/// Of matrices (rows, inner) and (inner, columns), `batch` of them.
struct ProductShape {
  std::int64_t batch = 1, rows = 0, inner = 0, columns = 0;
};

/// Whether torch gives a product of a half type to oneDNN.
bool takes_onednn(const ProductShape& shape);

// Upper bounds, in bytes, of what oneDNN takes besides the factors and the result, whatever the
// processor and the version.

/// Of a half type: each thread puts blocks of both factors in order and adds up float32; or all of
/// a result is added up in float32, for each thread that has one.
std::int64_t half_product_scratch(const ProductShape& shape, std::int64_t threads);
/// Of float32: each thread puts a strip of the second factor in order.
std::int64_t float_product_scratch(const ProductShape& shape, std::int64_t threads);

}  // namespace stages::meta
