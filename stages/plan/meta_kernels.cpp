#include "stages/plan/meta_kernels.h"

#include <torch/types.h>

#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_families.h"

namespace stages {
namespace {

/// Torch warns of kernels that take another one's place, as is meant here.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// The Meta device's own resize_ writes the new size into the storage and asks no allocator.
const at::Tensor& resize_meta(const at::Tensor& x, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  at::Storage storage = x.storage();
  const std::size_t needed = static_cast<std::size_t>(c10::multiply_integers(size) + x.storage_offset()) * x.itemsize();
  if (needed > storage.nbytes()) {
    storage.set_data_ptr(c10::GetAllocator(at::kMeta)->allocate(needed));
    storage.set_nbytes(needed);
  }
  x.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  if (format && *format != at::MemoryFormat::Preserve) x.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return x;
}

}  // namespace

void register_meta_kernels() {
  [[maybe_unused]] static const bool is_done = [] {
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    static auto meta = MAKE_TORCH_LIBRARY_IMPL(aten, Meta);
    static auto above_autograd = MAKE_TORCH_LIBRARY_IMPL(aten, AutogradMeta);
    meta.impl("resize_", resize_meta);
    meta::register_convolutions(meta);
    meta::register_products(meta);
    meta::register_norms(meta);
    meta::register_attention(meta, above_autograd);
    meta::register_losses(meta);
    meta::register_pointwise(meta);
    meta::register_optimizers(meta);
    static auto casting = MAKE_TORCH_LIBRARY_IMPL(aten, AutocastIPU);
    static auto others = MAKE_TORCH_LIBRARY_IMPL(_, AutocastIPU);
    meta::register_autocast(casting, others);
    return true;
  }();
}

namespace meta {

bool on_cpu() {
  const Backend* backend = traced_backend();
  return !backend || backend->device == at::kCPU;
}

std::int64_t threads() {
  const Backend* backend = traced_backend();
  return backend ? backend->threads : 1;
}

const Processor& processor() {
  const Backend* backend = traced_backend();
  return backend ? backend->processor : this_processor();
}

bool unfolds_images() {
  const Backend* backend = traced_backend();
  return backend ? backend->unfolds_images : onednn_unfolds_images();
}

bool onednn_computes(at::ScalarType type) {
  if (type == at::kFloat) return true;
  return (type == at::kBFloat16 && processor().bf16) || (type == at::kHalf && processor().fp16);
}

bool is_half(const at::Tensor& x) { return at::isReducedFloatingType(x.scalar_type()); }

at::Tensor scratch(at::IntArrayRef shape, const at::TensorOptions& options) {
  at::Tensor memory = at::empty(shape, options);
  mark_scratch(memory);
  return memory;
}

at::TensorOptions statistics_of(const at::Tensor& x) {
  return x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace meta
}  // namespace stages
