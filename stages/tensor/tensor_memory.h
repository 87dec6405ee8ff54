#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace stages {

// A tensor may temporarily have no memory, and keep its type, shape, strides and gradient. Code
// that reads its values in that state fails or crashes. All tensors that share its storage are
// affected. Autograd does not detect this: tensors that it has saved must not be used in the
// meantime.

/// True if the tensor is the only user of its memory: its storage contains exactly its elements.
bool fills_its_storage(const at::Tensor& tensor);

/// False if the tensor has elements, but no memory.
bool has_memory(const at::Tensor& tensor);

/// Gives this memory to a tensor that fills its storage or has no memory, and returns its previous
/// memory.
c10::DataPtr exchange_memory(const at::Tensor& tensor, c10::DataPtr memory);

void free_memory(const at::Tensor& tensor);
/// Returns a tensor without memory that has the type, shape and strides of `tensor`.
at::Tensor without_memory(const at::Tensor& tensor, c10::Device device);
/// Gives the tensor uninitialized memory.
void allocate_memory(const at::Tensor& tensor);

/// Returns a part of `all`, a contiguous tensor of bytes, as memory for exchange_memory(). It keeps
/// `all` alive.
c10::DataPtr part_of_memory(const at::Tensor& all, std::int64_t begin);

/// Returns the bytes of a tensor that fills its storage, in the order in which they are stored, as
/// a tensor that shares its memory.
at::Tensor memory_as_bytes(const at::Tensor& tensor);

}  // namespace stages
