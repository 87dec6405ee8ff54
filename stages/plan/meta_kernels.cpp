#include "stages/plan/meta_kernels.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <ATen/ops/_softmax_backward_data_meta_dispatch.h>
#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/baddbmm_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <ATen/ops/sum_meta_dispatch.h>
#include <torch/types.h>

#include "stages/plan/libtorch_version.h"
#include "stages/plan/memory_trace.h"

namespace stages {
namespace {

/// Silences torch's warnings about replaced kernels, since replacing them is intended here.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// Replaces the Meta device's resize_, which changes the storage's size without calling the
/// allocator.
const at::Tensor& resize_meta(const at::Tensor& x, at::IntArrayRef size,
                              std::optional<at::MemoryFormat> format) {
  at::Storage storage = x.storage();
  const std::size_t needed =
      static_cast<std::size_t>(c10::multiply_integers(size) + x.storage_offset()) * x.itemsize();
  if (needed > storage.nbytes()) {
    storage.set_data_ptr(c10::GetAllocator(at::kMeta)->allocate(needed));
    storage.set_nbytes(needed);
  }
  x.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  if (format && *format != at::MemoryFormat::Preserve)
    x.unsafeGetTensorImpl()->empty_tensor_restride(*format);
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
    meta::register_recurrence(meta, above_autograd);
    meta::register_losses(meta);
    meta::register_reductions(meta);
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

GpuKernels traced_gpu() {
  const Backend* backend = traced_backend();
  return gpu_kernels(backend ? backend->model : "");
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

namespace stages::meta {
namespace {

/// Simulates an operator that works in place and allocates nothing. Boxed, because its overloads
/// differ only in the learning rate's type.
void write_in_place(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, operation.schema().arguments().size());
}

}  // namespace

void register_optimizers(torch::Library& meta) {
  for (const char* name : {"_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adam_",
                           "_fused_adam_.tensor_lr", "_fused_adamw_", "_fused_adamw_.tensor_lr",
                           "_fused_adagrad_", "_amp_foreach_non_finite_check_and_unscale_"}) {
    meta.impl(name, torch::CppFunction::makeFromBoxedFunction<&write_in_place>());
  }
}

namespace {

using at::Tensor;

Tensor distances(const Tensor& a, const Tensor& b, double, std::optional<std::int64_t>) {
  std::vector<std::int64_t> shape = a.sizes().vec();
  shape.back() = b.size(-2);
  return at::empty(shape, a.options());
}

}  // namespace

void register_losses(torch::Library& meta) {
  // The second result is a buffer that the CPU keeps for exponentials.
  meta.impl("log_sigmoid_forward", [](const Tensor& x) {
    return std::tuple(at::empty_like(x),
                      on_cpu() ? at::empty_like(x) : at::empty({0}, x.options()));
  });
  meta.impl("log_sigmoid_backward",
            [](const Tensor&, const Tensor& x, const Tensor&) { return at::empty_like(x); });
  meta.impl("mse_loss_backward", [](const Tensor&, const Tensor& x, const Tensor&, std::int64_t) {
    return at::empty_like(x);
  });
  meta.impl("_cdist_forward", distances);
  meta.impl("_cdist_backward", [](const Tensor&, const Tensor& a, const Tensor&, double,
                                  const Tensor&) { return at::empty_like(a); });
}

namespace {

using at::Tensor;

/// Returns the number of leading dimensions that are summed over; 0 if the sum is over any other
/// dimension.
std::int64_t leading_sums(const Tensor& x, at::OptionalIntArrayRef dimensions) {
  if (!dimensions || dimensions->empty() ||
      static_cast<std::int64_t>(dimensions->size()) >= x.dim())
    return 0;
  std::int64_t count = 0;
  for (const std::int64_t dimension : *dimensions) {
    if (dimension != count) return 0;
    ++count;
  }
  return count;
}

Tensor sum_of_dimensions(const Tensor& x, at::OptionalIntArrayRef dimensions, bool keeps,
                         std::optional<at::ScalarType> type) {
  Tensor y = at::meta::sum(x, dimensions, keeps, type);
  if (on_cpu()) return y;
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i < leading_sums(x, dimensions); ++i) rows *= x.size(i);
  if (rows > 1)
    scratch({column_sum_scratch(rows, x.numel() / rows, traced_gpu())},
            x.options().dtype(at::kByte));
  return y;
}

/// A GPU first multiplies the result by the gradient.
Tensor softmax_gradient(const Tensor& dy, const Tensor& y, std::int64_t dimension,
                        at::ScalarType type) {
  const Tensor product = on_cpu() ? Tensor() : scratch(y.sizes(), y.options());
  return at::meta::_softmax_backward_data(dy, y, dimension, type);
}

}  // namespace

void register_reductions(torch::Library& meta) {
  meta.impl("sum.dim_IntList", sum_of_dimensions);
  meta.impl("_softmax_backward_data", softmax_gradient);
}

namespace {

using at::Scalar;
using at::Tensor;

/// Allocates the temporary memory for the CPU's products over the last two dimensions.
void take_scratch(const Tensor& a, const Tensor& b) {
  if (!on_cpu() || !at::isReducedFloatingType(a.scalar_type()) || !onednn_computes(a.scalar_type()))
    return;
  const std::int64_t dimensions = a.dim();
  const ProductShape shape = {.batch = dimensions == 3 ? a.size(0) : 1,
                              .rows = a.size(-2),
                              .inner = a.size(-1),
                              .columns = b.size(-1)};
  if (takes_onednn(shape))
    scratch({half_product_scratch(shape, threads())}, a.options().dtype(at::kByte));
}

/// Computes a b. `kShapes`, torch's own shape function, determines the shape and reports errors.
template <Tensor (*kShapes)(const Tensor&, const Tensor&)>
Tensor product(const Tensor& a, const Tensor& b) {
  const Tensor y = kShapes(a, b);
  take_scratch(a, b);
  return y;
}

/// Computes beta x + alpha a b. `kShapes`, torch's own shape function, determines the shape and
/// reports errors.
template <Tensor (*kShapes)(const Tensor&, const Tensor&, const Tensor&, const Scalar&,
                            const Scalar&)>
Tensor sum_with_product(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta,
                        const Scalar& alpha) {
  const Tensor y = kShapes(x, a, b, beta, alpha);
  take_scratch(a, b);
  return y;
}

}  // namespace

void register_products(torch::Library& meta) {
  meta.impl("mm", product<at::meta::mm>);
  meta.impl("addmm", sum_with_product<at::meta::addmm>);
  meta.impl("bmm", product<at::meta::bmm>);
  meta.impl("baddbmm", sum_with_product<at::meta::baddbmm>);
}

namespace {

constexpr std::int64_t kFloat = 4, kHalf = 2;           // bytes
constexpr std::int64_t kColumns = 64, kMostRows = 512;  // columns and rows of a block
constexpr std::int64_t kAligned = 4096;

}  // namespace

bool takes_onednn(const ProductShape& shape) {
  constexpr std::int64_t kSmallest = 16 * 16 * 16;
  return shape.batch * shape.rows * shape.inner * shape.columns > kSmallest;
}

std::int64_t half_product_scratch(const ProductShape& shape, std::int64_t threads) {
  // The inner dimension is padded to pairs and vectors, and to a stride that suits the cache.
  const std::int64_t rows = std::min(shape.rows + 32, kMostRows), inner = shape.inner + 128;
  const std::int64_t blocks =
      threads * (kHalf * inner * (kColumns + rows) + 2 * kFloat * rows * kColumns + 1024);
  const std::int64_t whole = std::min(threads, shape.batch) * kFloat * shape.rows * shape.columns;
  return std::max(blocks, whole) + kAligned;
}

std::int64_t float_product_scratch(const ProductShape& shape, std::int64_t threads) {
  return threads * kFloat * libtorch::kPackedColumns * (shape.inner + 256) + kAligned;
}

namespace {

using at::IntArrayRef;
using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Three batch_norm(const Tensor& x, const Maybe&, const Maybe&, const Maybe&, const Maybe&,
                 bool train, double, double) {
  const std::int64_t statistics = train ? x.size(1) : 0;
  return {at::empty_like(x), at::empty({statistics}, statistics_of(x)),
          at::empty({statistics}, statistics_of(x))};
}

bool is_dense(const Tensor& x) {
  return x.is_contiguous() || x.is_contiguous(x.suggest_memory_format());
}

/// If its input is dense, the CPU's kernel allocates its result a second time before freeing the
/// first.
Three batch_norm_backward(const Tensor& gradient, const Tensor& x, const Maybe& weight,
                          const Maybe&, const Maybe&, const Maybe&, const Maybe&, bool, double,
                          std::array<bool, 3> wanted) {
  const auto options = weight && weight->defined() ? weight->options() : statistics_of(x);
  const auto channels = [&](bool is_wanted) {
    return is_wanted ? at::empty({x.size(1)}, options) : Tensor();
  };
  const bool makes_two = wanted[0] && on_cpu() && is_dense(x) && is_dense(gradient) &&
                         x.suggest_memory_format() == gradient.suggest_memory_format();
  const Tensor first = makes_two ? at::empty_like(x) : Tensor();
  return {wanted[0] ? at::empty_like(x) : Tensor(), channels(wanted[1]), channels(wanted[2])};
}

Three layer_norm(const Tensor& x, IntArrayRef normalized, const Maybe&, const Maybe&, double) {
  const Tensor input = x.contiguous();
  std::vector<std::int64_t> shape = x.sizes().vec();
  std::fill(shape.end() - static_cast<std::ptrdiff_t>(normalized.size()), shape.end(), 1);
  const Tensor y = at::empty_like(input, at::MemoryFormat::Contiguous);
  return {y, at::empty(shape, statistics_of(x)), at::empty(shape, statistics_of(x))};
}

Three layer_norm_backward(const Tensor& gradient, const Tensor& x, IntArrayRef normalized,
                          const Tensor&, const Tensor&, const Maybe& weight, const Maybe&,
                          std::array<bool, 3> wanted) {
  const Tensor input = x.contiguous(), dy = gradient.contiguous();
  const auto options = weight && weight->defined() ? weight->options() : x.options();
  const auto affine = [&](bool is_wanted) {
    return is_wanted ? at::empty(normalized, options) : Tensor();
  };
  const Tensor dx = wanted[0] ? at::empty_like(input, at::MemoryFormat::Contiguous) : Tensor();
  const Tensor dweight = affine(wanted[1]), dbias = affine(wanted[2]);
  if (on_cpu() && (wanted[1] || wanted[2])) {
    const Tensor sums =
        scratch({2, threads(), c10::multiply_integers(normalized)}, statistics_of(x));
  }
  return {dx, dweight, dbias};
}

Three group_norm(const Tensor& x, const Maybe&, const Maybe&, c10::SymInt n, c10::SymInt,
                 c10::SymInt, std::int64_t groups, double) {
  const auto statistics = [&] { return at::empty({n.expect_int(), groups}, statistics_of(x)); };
  return {at::empty_like(x), statistics(), statistics()};
}

Three group_norm_backward(const Tensor& gradient, const Tensor& x, const Tensor&, const Tensor&,
                          const Maybe& weight, c10::SymInt n, c10::SymInt channels, c10::SymInt,
                          std::int64_t, std::array<bool, 3> wanted) {
  Tensor copy, sums;
  if (libtorch::kGroupNormCopiesGradient) {
    const auto layout = on_cpu() ? x.suggest_memory_format() : at::MemoryFormat::Contiguous;
    if (!gradient.is_contiguous(layout)) copy = scratch(gradient.sizes(), gradient.options());
    sums = scratch({2, n.expect_int(), channels.expect_int()}, statistics_of(x));
  }
  const auto options = weight && weight->defined() ? weight->options() : statistics_of(x);
  const auto affine = [&](bool is_wanted) {
    return is_wanted ? at::empty({channels.expect_int()}, options) : Tensor();
  };
  return {wanted[0] ? at::empty_like(x) : Tensor(), affine(wanted[1]), affine(wanted[2])};
}

}  // namespace

void register_norms(torch::Library& meta) {
  meta.impl("native_batch_norm", batch_norm);
  meta.impl("native_batch_norm_backward", batch_norm_backward);
  meta.impl("native_layer_norm", layer_norm);
  meta.impl("native_layer_norm_backward", layer_norm_backward);
  meta.impl("native_group_norm", group_norm);
  meta.impl("native_group_norm_backward", group_norm_backward);
}

}  // namespace stages::meta
