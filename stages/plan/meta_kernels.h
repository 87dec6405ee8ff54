#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "stages/plan/gpu_scratch.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// Registers Meta kernels for operators that LibTorch has none for in C++. They are shape functions
/// that allocate what the kernels of the living trace's backend allocate, including temporaries;
/// without a trace, what those of a CPU with one thread allocate. Call it before a dry run; later
/// calls do nothing.
void register_meta_kernels();

}  // namespace stages

namespace stages::meta {

// The families of shape functions that register_meta_kernels() registers: for the Meta device, and
// above autograd if an operator is chosen by device.
void register_convolutions(torch::Library& meta);
void register_products(torch::Library& meta);
void register_norms(torch::Library& meta);
void register_attention(torch::Library& meta, torch::Library& above_autograd);
void register_losses(torch::Library& meta);
void register_reductions(torch::Library& meta);
void register_pointwise(torch::Library& meta);
void register_optimizers(torch::Library& meta);
/// Registers autocast of Meta tensors under a key of its own, and a fallthrough for all other
/// operators under that key.
void register_autocast(torch::Library& casting, torch::Library& others);

/// True if the traced kernels are a CPU's.
bool on_cpu();
/// The number of threads of the traced CPU.
std::int64_t threads();
/// The traced CPU.
const Processor& processor();
/// The traced GPU.
GpuKernels traced_gpu();
/// Whether its oneDNN unfolds images for all convolutions.
bool unfolds_images();
/// True if oneDNN computes convolutions and products of this type.
bool onednn_computes(at::ScalarType type);

/// True for bfloat16 and float16.
bool is_half(const at::Tensor& x);

/// Memory that a kernel may take and frees before it returns: `shape`, with the type and device of
/// `options`.
at::Tensor scratch(at::IntArrayRef shape, const at::TensorOptions& options);

/// The options for statistics of `x`: float32 if `x` has a half type.
at::TensorOptions statistics_of(const at::Tensor& x);

/// A product of `batch` pairs of matrices, (rows, inner) and (inner, columns).
struct ProductShape {
  std::int64_t batch = 1, rows = 0, inner = 0, columns = 0;
};

/// Whether torch uses oneDNN for a product of a half type.
bool takes_onednn(const ProductShape& shape);

// Upper bounds, in bytes, of the memory that oneDNN takes in addition to the factors and the
// result, for any processor and version.

/// For half types: each thread packs blocks of both factors and accumulates in float32; or a whole
/// result is accumulated in float32, for each thread that has one.
std::int64_t half_product_scratch(const ProductShape& shape, std::int64_t threads);
/// For float32: each thread packs a strip of the second factor.
std::int64_t float_product_scratch(const ProductShape& shape, std::int64_t threads);

}  // namespace stages::meta
