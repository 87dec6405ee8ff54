#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/baddbmm_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <torch/types.h>

#include "stages/plan/meta_families.h"
#include "stages/plan/product_bound.h"

namespace stages::meta {
namespace {

using at::Scalar;
using at::Tensor;

/// What the CPU's products of the last two dimensions take for a while.
void take_scratch(const Tensor& a, const Tensor& b) {
  if (!on_cpu() || !at::isReducedFloatingType(a.scalar_type()) || !onednn_computes(a.scalar_type())) return;
  const std::int64_t dimensions = a.dim();
  const ProductShape shape = {
      .batch = dimensions == 3 ? a.size(0) : 1, .rows = a.size(-2), .inner = a.size(-1), .columns = b.size(-1)};
  if (takes_onednn(shape)) scratch({half_product_scratch(shape, threads())}, a.options().dtype(at::kByte));
}

/// a b. The shapes, and what is wrong with them, are `kShapes`, torch's own, to say.
template <Tensor (*kShapes)(const Tensor&, const Tensor&)>
Tensor product(const Tensor& a, const Tensor& b) {
  const Tensor y = kShapes(a, b);
  take_scratch(a, b);
  return y;
}

/// beta x + alpha a b, likewise.
template <Tensor (*kShapes)(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&)>
Tensor sum_with_product(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
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

}  // namespace stages::meta
