#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/baddbmm_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <torch/torch.h>

#include "stages/trace/meta_families.h"
#include "stages/trace/onednn_product.h"

namespace stages::meta {
namespace {

using at::Scalar;
using at::Tensor;

/// What the CPU's products of the last two dimensions take for a while.
void take_scratch(const Tensor& a, const Tensor& b) {
  if (!on_cpu() || !at::isReducedFloatingType(a.scalar_type()) || !onednn_computes(a.scalar_type())) return;
  const std::int64_t dimensions = a.dim();
  const ProductShape shape = {.batch = dimensions == 3 ? a.size(0) : 1,
                              .rows = a.size(-2),
                              .inner = a.size(-1),
                              .columns = b.size(-1),
                              .is_turned = a.stride(-2) == 1 && a.stride(-1) > 1};
  if (takes_onednn(shape)) scratch({product_scratch(shape, {processor(), threads()})}, a.options().dtype(at::kByte));
}

// The shapes, and what is wrong with them, are torch's to say.

Tensor product(const Tensor& a, const Tensor& b) {
  const Tensor y = at::meta::mm(a, b);
  take_scratch(a, b);
  return y;
}

Tensor sum_with_product(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const Tensor y = at::meta::addmm(x, a, b, beta, alpha);
  take_scratch(a, b);
  return y;
}

Tensor products(const Tensor& a, const Tensor& b) {
  const Tensor y = at::meta::bmm(a, b);
  take_scratch(a, b);
  return y;
}

Tensor sum_with_products(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const Tensor y = at::meta::baddbmm(x, a, b, beta, alpha);
  take_scratch(a, b);
  return y;
}

}  // namespace

void register_products(torch::Library& meta) {
  meta.impl("mm", product);
  meta.impl("addmm", sum_with_product);
  meta.impl("bmm", products);
  meta.impl("baddbmm", sum_with_products);
}

}  // namespace stages::meta
