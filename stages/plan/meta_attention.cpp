#include <algorithm>
#include <optional>
#include <tuple>

#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/types.h>

#include "stages/plan/gpu_scratch.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"

namespace stages::meta {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

/// Returns a tensor of shape (n, heads, tokens, width) that is stored as (n, tokens, heads, width).
/// Kernels create gradients in this order and, on a GPU, results too.
Tensor token_major(const Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options())
      .transpose(1, 2);
}

/// The number of queries and of keys that each thread of the CPU kernel processes at once.
struct Tile {
  std::int64_t queries, keys;
};
Tile tile(const Tensor& queries, const Tensor& keys) {
  const std::int64_t tokens = queries.size(2);
  return {std::min<std::int64_t>(tokens >= 768   ? 256
                                 : tokens >= 192 ? 64
                                                 : 32,
                                 tokens),
          std::min<std::int64_t>(512, keys.size(2))};
}

std::tuple<Tensor, Tensor> flash(const Tensor& q, const Tensor& k, const Tensor& v, double, bool,
                                 const Maybe&, std::optional<double>) {
  count_flops(2.0 * static_cast<double>(q.numel() * k.size(2)) +
              2.0 * static_cast<double>(q.numel() * v.size(2)));
  const Tensor y = on_cpu() ? at::empty_like(q) : token_major(q);
  const Tensor log_sum =
      at::empty({q.size(0), q.size(2), q.size(1)}, statistics_of(q)).transpose(1, 2);
  if (!on_cpu()) return {y, log_sum};
  const auto [queries, keys] = tile(q, k);
  const Tensor sums =
      scratch({threads(), queries * keys + 2 * queries + queries * q.size(3)}, statistics_of(q));
  const Tensor narrowed = is_half(q) ? scratch({threads(), queries * keys}, q.options()) : Tensor();
  return {y, log_sum};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor&, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor&, const Tensor&,
                                                  double, bool, const Maybe&,
                                                  std::optional<double>) {
  count_flops(10.0 * static_cast<double>(q.numel() * k.size(2)));
  const Tensor dq = token_major(q), dk = token_major(k), dv = token_major(v);
  if (!on_cpu()) {
    const AttentionShape shape = {.rows = q.size(0) * q.size(1),
                                  .tokens = std::max(q.size(2), k.size(2)),
                                  .width = q.size(3),
                                  .is_half = is_half(q)};
    scratch({attention_backward_scratch(shape, traced_gpu())}, q.options().dtype(at::kByte));
    return {dq, dk, dv};
  }
  const auto [queries, keys] = tile(q, k);
  const Tensor sums = scratch({threads(), 2 * queries * keys + queries}, statistics_of(q));
  const Tensor narrowed =
      is_half(q) ? scratch({threads(), 2 * queries * keys}, q.options()) : Tensor();
  if (is_half(q) && onednn_computes(q.scalar_type())) {
    // Each thread multiplies tiles using oneDNN, which divides them as if it had all threads to
    // itself.
    const ProductShape of_keys = {.rows = keys, .inner = queries, .columns = q.size(3)},
                       of_queries = {.rows = queries, .inner = keys, .columns = q.size(3)};
    std::int64_t bytes = 0;
    for (const ProductShape& product : {of_keys, of_queries}) {
      if (meta::takes_onednn(product))
        bytes = std::max(bytes, half_product_scratch(product, threads()));
    }
    scratch({std::min(threads(), q.size(0) * q.size(1)), bytes}, q.options().dtype(at::kByte));
  }
  return {dq, dk, dv};
}

/// True if the GPU has a flash or memory-efficient kernel for `q`. These kernels load words of 16
/// bytes and do not support float64. If only some GPU generations support a case, plain products
/// are planned, which are the upper bound.
bool has_gpu_kernel(const Tensor& q) {
  return q.scalar_type() != at::kDouble && q.size(3) % (16 / q.element_size()) == 0 &&
         q.size(3) <= 256;
}

/// True if torch would choose a flash kernel.
bool takes_flash(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask,
                 double dropout) {
  if (dropout != 0 || q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || q.size(3) != v.size(3))
    return false;
  for (const std::int64_t dimension : {0, 1}) {
    if (q.size(dimension) != k.size(dimension) || q.size(dimension) != v.size(dimension))
      return false;
  }
  if (!sdp::check_attn_mask_shape({q, k, v, mask, dropout, /*is_causal=*/false, false},
                                  /*debug=*/false))
    return false;
  return (on_cpu() || has_gpu_kernel(q)) && q.size(2) > 0 && k.size(2) > 0 && q.stride(3) == 1 &&
         k.stride(3) == 1 && v.stride(3) == 1;
}

/// Returns a boolean mask in the form that torch passes to kernels: as values to add to the
/// products.
Maybe added_mask(const Maybe& mask, const Tensor& q) {
  if (!mask || mask->scalar_type() != at::kBool) return mask;
  return at::where(*mask, 0.0, at::empty({}, q.options()));
}

/// On Meta, torch always computes attention with plain products, whereas the traced device has its
/// own kernels. The choice is made above autograd so that the backward pass matches the chosen
/// kernel.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Maybe& mask, double dropout, bool causal,
                                    std::optional<double> scale, bool grouped) {
  if (traced_backend() && takes_flash(q, k, v, mask, dropout)) {
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal,
                                                                       added_mask(mask, q), scale));
  }
  return std::get<0>(
      at::_scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, {}, scale, grouped));
}

}  // namespace

void register_attention(torch::Library& meta, torch::Library& above_autograd) {
  meta.impl("_scaled_dot_product_flash_attention_for_cpu", flash);
  meta.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flash_backward);
  above_autograd.impl("scaled_dot_product_attention", scaled_dot_product_attention);
}

}  // namespace stages::meta
