#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "stages/plan/gpu_scratch.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// Registers Meta kernels for operators that have none in LibTorch's C++ part. They are shape
/// functions that allocate what the kernels of the live trace's backend would allocate, including
/// temporaries; without a trace, what the kernels of a CPU with one thread would allocate. Call
/// this before a dry run; later calls do nothing.
void register_meta_kernels();

}  // namespace stages

namespace stages::meta {

// The families of shape functions that register_meta_kernels() registers: for the Meta device and,
// if the operator is selected by device, above autograd.
void register_convolutions(torch::Library& meta);
void register_products(torch::Library& meta);
void register_norms(torch::Library& meta);
void register_attention(torch::Library& meta, torch::Library& above_autograd);
void register_recurrence(torch::Library& meta, torch::Library& above_autograd);
void register_losses(torch::Library& meta);
void register_reductions(torch::Library& meta);
void register_pointwise(torch::Library& meta);
void register_optimizers(torch::Library& meta);
/// Registers autocast for Meta tensors under its own key, and a fallthrough for all other operators
/// under that key.
void register_autocast(torch::Library& casting, torch::Library& others);

/// True if the live trace simulates a CPU.
bool on_cpu();
/// Returns the number of threads of the traced CPU.
std::int64_t threads();
/// Returns the traced CPU.
const Processor& processor();
/// Returns the traced GPU.
GpuKernels traced_gpu();
/// True if oneDNN on the traced CPU unfolds images for all convolutions.
bool unfolds_images();
/// True if oneDNN computes convolutions and products of this type.
bool onednn_computes(at::ScalarType type);

/// True for bfloat16 and float16.
bool is_half(const at::Tensor& x);

/// Allocates memory that a kernel may use and frees before it returns, with the given shape and the
/// type and device of `options`.
at::Tensor scratch(at::IntArrayRef shape, const at::TensorOptions& options);

/// Returns the tensor options for statistics of `x`: float32 if `x` has a half-precision type.
at::TensorOptions statistics_of(const at::Tensor& x);

/// A product of `batch` pairs of matrices of shapes (rows, inner) and (inner, columns).
struct ProductShape {
  std::int64_t batch = 1, rows = 0, inner = 0, columns = 0;
};

/// True if torch uses oneDNN for a product in a half-precision type.
bool takes_onednn(const ProductShape& shape);

// Upper bounds, in bytes, for the memory that oneDNN allocates in addition to the factors and the
// result, on any processor and in any supported version.

/// For half-precision types: each thread packs blocks of both factors and accumulates in float32,
/// or each thread that has a result accumulates all of it in float32.
std::int64_t half_product_scratch(const ProductShape& shape, std::int64_t threads);
/// For float32: each thread packs a strip of the second factor.
std::int64_t float_product_scratch(const ProductShape& shape, std::int64_t threads);

}  // namespace stages::meta
