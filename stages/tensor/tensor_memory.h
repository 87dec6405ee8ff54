#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace stages {

// A tensor may temporarily have no memory, and keep its type, shape, strides and gradient. Whatever
// reads its values in that state fails, or crashes. All tensors that share its storage are
// affected. A graph does not notice: what autograd has saved must not be used in between.

/// True if the tensor owns its memory alone: its storage has exactly its elements.
bool fills_its_storage(const at::Tensor& tensor);

/// False if the tensor has elements, but no memory.
bool has_memory(const at::Tensor& tensor);

/// Gives a tensor that fills its storage, or has none, this memory, and returns what it had before.
c10::DataPtr exchange_memory(const at::Tensor& tensor, c10::DataPtr memory);

void free_memory(const at::Tensor& tensor);
/// Returns a tensor without memory that has the type, shape and strides of `tensor`.
at::Tensor without_memory(const at::Tensor& tensor, c10::Device device);
/// Gives the tensor memory, which is not initialized.
void allocate_memory(const at::Tensor& tensor);

/// Returns a part of `all`, a contiguous tensor of bytes, as memory for exchange_memory(). It keeps
/// `all` alive.
c10::DataPtr part_of_memory(const at::Tensor& all, std::int64_t begin);

/// Returns the bytes of a tensor that fills its storage, in the order in which they are stored, as
/// a tensor that shares its memory.
at::Tensor memory_as_bytes(const at::Tensor& tensor);

}  // namespace stages
