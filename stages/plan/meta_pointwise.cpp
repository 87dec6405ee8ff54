#include <ATen/ops/add_meta_dispatch.h>
#include <ATen/ops/index_add_meta_dispatch.h>
#include <ATen/ops/mul_meta_dispatch.h>
#include <torch/types.h>

#include "stages/plan/meta_kernels.h"

namespace stages::meta {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;

std::vector<std::int64_t> common_shape(const Tensor& a, const Tensor& b, const Tensor& c) {
  return at::infer_size(at::infer_size(a.sizes(), b.sizes()), c.sizes());
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return at::empty(common_shape(condition, a, b), a.options().dtype(at::result_type(a, b)));
}

Tensor& where_out(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  out.resize_(common_shape(condition, a, b));
  return out;
}

/// Returns the copy that a CPU first makes of the narrower of two tensors of different types;
/// undefined if there is none.
Tensor widened_copy(const Tensor& a, const Tensor& b) {
  const at::ScalarType type = at::result_type(a, b);
  const auto is_narrower = [&](const Tensor& x) { return x.dim() > 0 && x.scalar_type() != type; };
  if (!on_cpu() || !(is_narrower(a) || is_narrower(b))) return {};
  const Tensor& narrower = is_narrower(a) ? a : b;
  return scratch(narrower.sizes(), narrower.options().dtype(type));
}

Tensor sum_of_two(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  const Tensor copy = widened_copy(a, b);
  return at::meta::add(a, b, alpha);
}

Tensor product_of_two(const Tensor& a, const Tensor& b) {
  const Tensor copy = widened_copy(a, b);
  return at::meta::mul(a, b);
}

Tensor index_select(const Tensor& x, std::int64_t dimension, const Tensor& index) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  if (!shape.empty())
    shape[static_cast<std::size_t>(dimension < 0 ? dimension + x.dim() : dimension)] =
        index.numel();
  return at::empty(shape, x.options());
}

Tensor embedding_backward(const Tensor& gradient, const Tensor& indices, c10::SymInt rows,
                          c10::SymInt, bool) {
  const Tensor dy = gradient.contiguous();
  if (!on_cpu())
    scratch({embedding_backward_scratch(dy.numel(), indices.numel())},
            dy.options().dtype(at::kByte));
  return at::empty({rows.expect_int(), dy.size(-1)}, dy.options());
}

/// Computes the gradient of index_select. On Meta, the result is a second tensor in addition to the
/// zeros. A deterministic GPU adds the rows to the zeros via two sorted copies.
Tensor index_add(const Tensor& zeros, std::int64_t dimension, const Tensor& index,
                 const Tensor& rows, const Scalar& alpha) {
  Tensor sum = at::meta::index_add(zeros, dimension, index, rows, alpha);
  if (!on_cpu()) scratch({zeros.numel()}, zeros.options());
  return sum;
}

Tensor adaptive_avg_pool2d(const Tensor& x, IntArrayRef size) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  std::copy(size.begin(), size.end(), shape.end() - 2);
  return at::empty(shape, x.options(), x.suggest_memory_format());
}

Tensor& randperm(std::int64_t n, std::optional<at::Generator>, Tensor& out) {
  out.resize_({n});
  return out;
}

}  // namespace

void register_pointwise(torch::Library& meta) {
  const auto like = [](const Tensor& x) { return at::empty_like(x); };
  const auto like_first_of_two = [](const Tensor& x, const Tensor&) { return at::empty_like(x); };
  const auto like_second_of_two = [](const Tensor&, const Tensor& x) { return at::empty_like(x); };
  const auto scalar = [](const Tensor& x) { return at::empty({}, x.options()); };
  meta.impl("relu", like);
  meta.impl("abs", like);
  meta.impl("hardswish", like);
  meta.impl("hardswish_", [](Tensor& x) -> Tensor& { return x; });
  meta.impl("hardswish_backward", like_first_of_two);
  meta.impl("hardtanh",
            [](const Tensor& x, const Scalar&, const Scalar&) { return at::empty_like(x); });
  meta.impl("hardtanh_", [](Tensor& x, const Scalar&, const Scalar&) -> Tensor& { return x; });
  meta.impl("hardtanh_backward", [](const Tensor&, const Tensor& x, const Scalar&, const Scalar&) {
    return at::empty_like(x);
  });
  meta.impl("flip", [](const Tensor& x, IntArrayRef) { return at::empty_like(x); });
  meta.impl("roll",
            [](const Tensor& x, c10::SymIntArrayRef, IntArrayRef) { return at::empty_like(x); });
  meta.impl("dot", [](const Tensor& x, const Tensor&) { return at::empty({}, x.options()); });
  meta.impl("max", scalar);
  meta.impl("add.Tensor", sum_of_two);
  meta.impl("mul.Tensor", product_of_two);
  meta.impl("where.self", where);
  meta.impl("where.self_out", where_out);
  meta.impl("logical_and.out",
            [](const Tensor&, const Tensor&, Tensor& out) -> Tensor& { return out; });
  meta.impl("logical_not.out", [](const Tensor& x, Tensor& out) -> Tensor& {
    out.resize_(x.sizes());
    return out;
  });
  meta.impl("index_select", index_select);
  meta.impl("index_add", index_add);
  meta.impl("embedding_dense_backward", embedding_backward);
  meta.impl("_adaptive_avg_pool2d", adaptive_avg_pool2d);
  meta.impl("_adaptive_avg_pool2d_backward", like_second_of_two);
  meta.impl("randperm.generator_out", randperm);
}

}  // namespace stages::meta
