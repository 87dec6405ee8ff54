#include "tests/support/stand_in/host_views.h"

#include <algorithm>

#include <c10/core/CPUAllocator.h>
#include <torch/types.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/graphs.h"

namespace stand_in {

at::Tensor HostViews::of(const at::Tensor& tensor, bool writes) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(), "the stand-in knows no lazy conjugates");
  if (Recording* const own = recording()) {
    own->use(tensor.storage().data(), tensor.storage().nbytes(), writes);
  } else {
    const std::lock_guard guard(lock());
    if (Uses* const uses = card_allocator().uses_of(tensor.storage().data()))
      uses->add(work_, writes);
  }
  for (View& view : views_) {
    if (view.of_gpu.unsafeGetTensorImpl() != tensor.unsafeGetTensorImpl()) continue;
    view.is_written = view.is_written || writes;
    return view.of_host;
  }
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      storage_of(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
  views_.push_back({tensor, view, writes});
  return view;
}

c10::Storage HostViews::storage_of(const c10::Storage& storage) {
  const auto [place, is_new] = storages_.try_emplace(storage.unsafeGetStorageImpl());
  if (is_new) {
    void* const memory =
        card_allocator().addresses(storage.device().index()).for_kernels(storage.data());
    place->second = c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(),
                                 c10::DataPtr(memory, at::kCPU), c10::GetCPUAllocator(),
                                 /*resizable=*/true);
  }
  return place->second;
}

at::Tensor HostViews::on_device(const at::Tensor& result, c10::Device device) {
  if (!result.defined() || result.is_cuda()) return result;
  for (const View& view : views_) {
    if (view.of_host.unsafeGetTensorImpl() == result.unsafeGetTensorImpl()) return view.of_gpu;
  }
  for (const View& view : views_) {
    if (view.of_host.storage().unsafeGetStorageImpl() == result.storage().unsafeGetStorageImpl() &&
        result.numel() > 0)
      return view.of_gpu.as_strided(result.sizes(), result.strides(), result.storage_offset());
  }
  at::Tensor copy =
      at::empty_strided(result.sizes(), result.strides(), result.options().device(device));
  of(copy, /*writes=*/true).copy_(result);
  return copy;
}

std::vector<at::Tensor> HostViews::run(const Kernel& kernel, c10::Device device) {
  const std::vector<at::Tensor> results = kernel();
  std::vector<at::Tensor> on_gpu;
  for (const at::Tensor& result : results) on_gpu.push_back(on_device(result, device));
  record(kernel, results, on_gpu);
  return on_gpu;
}

void HostViews::record(const Kernel& kernel, const std::vector<at::Tensor>& results,
                       const std::vector<at::Tensor>& on_gpu) {
  Recording* const own = recording();
  if (!own) return;
  std::vector<at::Tensor> places;  // undefined: the kernel has written to a view
  for (std::size_t i = 0; i < results.size(); ++i)
    places.push_back(is_view(results[i]) ? at::Tensor() : of(on_gpu[i], /*writes=*/true));
  own->add([kernel, places = std::move(places)] {
    const std::vector<at::Tensor> again = kernel();
    for (std::size_t i = 0; i < places.size(); ++i)
      if (places[i].defined()) at::Tensor(places[i]).copy_(again[i]);
  });
}

bool HostViews::is_view(const at::Tensor& result) const {
  return !result.defined() || result.is_cuda() ||
         std::ranges::any_of(views_, [&](const View& view) {
           return view.of_host.storage().unsafeGetStorageImpl() ==
                  result.storage().unsafeGetStorageImpl();
         });
}

void HostViews::take_over_resized() {
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const auto [of_gpu, of_host, is_written] = views_[i];
    if (!is_written) continue;
    const bool has_new_memory =
        of_host.storage().data() !=
        card_allocator().addresses(of_gpu.device().index()).for_kernels(of_gpu.storage().data());
    if (!has_new_memory && of_host.sizes() == of_gpu.sizes() &&
        of_host.strides() == of_gpu.strides())
      continue;
    if (has_new_memory) of_gpu.resize_(of_host.sizes());
    of_gpu.unsafeGetTensorImpl()->set_sizes_and_strides(of_host.sizes(), of_host.strides());
    if (!has_new_memory) continue;
    const at::Tensor place = HostViews(work_).of(of_gpu, /*writes=*/true);
    place.copy_(of_host);
    if (Recording* const own = recording())
      own->add([place, own_memory = of_host] { at::Tensor(place).copy_(own_memory); });
  }
}

}  // namespace stand_in
