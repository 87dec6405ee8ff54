#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tests/support/stand_in/streams.h"

namespace stand_in {

/// CPU tensors over the memory of GPU tensors, for one kernel. Tensors that share their storage
/// have views that share theirs.
class HostViews {
 public:
  explicit HostViews(Work work) : work_(work) {}

  /// Returns the view of a tensor of a GPU, and `tensor` itself if it is on the host or undefined.
  /// `writes` says whether the kernel changes it.
  at::Tensor of(const at::Tensor& tensor, bool writes);

  /// Converts a result of a kernel to a tensor on `device`: for a view, the tensor that it views;
  /// otherwise a copy in new memory.
  at::Tensor on_device(const at::Tensor& result, c10::Device device);

  /// Runs a kernel over views, and returns its results as tensors of `device`.
  using Kernel = std::function<std::vector<at::Tensor>()>;
  std::vector<at::Tensor> run(const Kernel& kernel, c10::Device device);
  /// If the stream is recording, adds the kernel to the recording. `results` are the kernel's
  /// results, `on_gpu` their tensors from on_device().
  void record(const Kernel& kernel, const std::vector<at::Tensor>& results,
              const std::vector<at::Tensor>& on_gpu);

  /// If the kernel has resized the views of tensors, gives the tensors the shapes and values of
  /// their views.
  void take_over_resized();

 private:
  struct View {
    at::Tensor of_gpu, of_host;
    bool is_written = false;
  };
  bool is_view(const at::Tensor& result) const;
  c10::Storage storage_of(const c10::Storage& storage);

  const Work work_;
  std::vector<View> views_;
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
};

}  // namespace stand_in
