#include "stages/tensor/tensor_memory.h"

#include <memory>
#include <utility>

#include <torch/types.h>

namespace stages {

bool fills_its_storage(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage_offset() == 0 &&
         tensor.is_non_overlapping_and_dense() && tensor.storage().nbytes() == tensor.nbytes();
}

bool has_memory(const at::Tensor& tensor) {
  return tensor.numel() == 0 || tensor.storage().nbytes() > 0;
}

c10::DataPtr exchange_memory(const at::Tensor& tensor, c10::DataPtr memory) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_nbytes(tensor.nbytes());
  return storage.set_data_ptr(std::move(memory));
}

void free_memory(const at::Tensor& tensor) {
  exchange_memory(tensor, c10::DataPtr(nullptr, tensor.device()));
  tensor.storage().set_nbytes(0);
}

at::Tensor without_memory(const at::Tensor& tensor, c10::Device device) {
  const at::Tensor result = torch::empty({0}, tensor.options().device(device).requires_grad(false));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return result;
}

void allocate_memory(const at::Tensor& tensor) {
  const at::Tensor fresh = torch::empty_like(tensor.detach());
  exchange_memory(tensor, exchange_memory(fresh, c10::DataPtr(nullptr, tensor.device())));
}

c10::DataPtr part_of_memory(const at::Tensor& all, std::int64_t begin) {
  auto owner = std::make_unique<c10::Storage>(all.storage());
  // Tensors of a dry run have no address.
  auto* const first = static_cast<char*>(owner->unsafeGetStorageImpl()->mutable_data());
  char* const place = first ? first + all.storage_offset() + begin : nullptr;
  return {place, owner.release(), [](void* storage) { delete static_cast<c10::Storage*>(storage); },
          all.device()};
}

at::Tensor memory_as_bytes(const at::Tensor& tensor) {
  const torch::NoGradGuard no_graph;
  return torch::empty({0}, tensor.options().dtype(torch::kByte).requires_grad(false))
      .set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.nbytes())}, {1});
}

}  // namespace stages
