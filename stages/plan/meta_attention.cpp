#include <algorithm>
#include <tuple>

#include <torch/types.h>

#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_families.h"
#include "stages/plan/product_bound.h"

namespace stages::meta {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

/// (n, heads, tokens, width) that lies in memory as (n, tokens, heads, width), as the CPU's kernel makes its results.
Tensor token_major(const Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

/// How many queries and keys a thread of the CPU's kernel takes at once.
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

std::tuple<Tensor, Tensor> flash(const Tensor& q, const Tensor& k, const Tensor& v, double, bool, const Maybe&,
                                 std::optional<double>) {
  count_flops(2.0 * static_cast<double>(q.numel() * k.size(2)) + 2.0 * static_cast<double>(q.numel() * v.size(2)));
  const Tensor y = token_major(q);
  const Tensor log_sum = at::empty({q.size(0), q.size(2), q.size(1)}, statistics_of(q)).transpose(1, 2);
  if (!on_cpu()) return {y, log_sum};
  const auto [queries, keys] = tile(q, k);
  const Tensor sums = scratch({threads(), queries * keys + 2 * queries + queries * q.size(3)}, statistics_of(q));
  const Tensor narrowed = is_half(q) ? scratch({threads(), queries * keys}, q.options()) : Tensor();
  return {y, log_sum};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor&, const Tensor&, double, bool, const Maybe&,
                                                  std::optional<double>) {
  count_flops(10.0 * static_cast<double>(q.numel() * k.size(2)));
  const Tensor dq = token_major(q), dk = token_major(k), dv = token_major(v);
  if (!on_cpu()) return {dq, dk, dv};
  const auto [queries, keys] = tile(q, k);
  const Tensor sums = scratch({threads(), 2 * queries * keys + queries}, statistics_of(q));
  const Tensor narrowed = is_half(q) ? scratch({threads(), 2 * queries * keys}, q.options()) : Tensor();
  if (is_half(q) && onednn_computes(q.scalar_type())) {
    // Each thread multiplies tiles by oneDNN, which cuts them as if all threads were its own.
    const ProductShape of_keys = {.rows = keys, .inner = queries, .columns = q.size(3)},
                       of_queries = {.rows = queries, .inner = keys, .columns = q.size(3)};
    std::int64_t bytes = 0;
    for (const ProductShape& product : {of_keys, of_queries}) {
      if (meta::takes_onednn(product)) bytes = std::max(bytes, half_product_scratch(product, threads()));
    }
    scratch({std::min(threads(), q.size(0) * q.size(1)), bytes}, q.options().dtype(at::kByte));
  }
  return {dq, dk, dv};
}

/// A GPU's kernels, flash and memory-efficient, load whole words of 16 bytes, and none is for float64. What one of them
/// takes on some generation and not on another is planned as plain products, which is the upper bound.
bool has_gpu_kernel(const Tensor& q) {
  return q.scalar_type() != at::kDouble && q.size(3) % (16 / q.element_size()) == 0 && q.size(3) <= 256;
}

/// What torch's choice looks at.
bool takes_flash(const Tensor& q, const Tensor& k, const Tensor& v, double dropout) {
  if (dropout != 0 || q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || q.size(3) != v.size(3)) return false;
  return (on_cpu() || has_gpu_kernel(q)) && q.size(2) > 0 && k.size(2) > 0 && q.stride(3) == 1 && k.stride(3) == 1 &&
         v.stride(3) == 1;
}

/// On Meta torch always computes attention by plain products; the traced device has kernels of its own. The choice is
/// made above autograd, so that the derivative is that of what is chosen.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask,
                                    double dropout, bool causal, std::optional<double> scale, bool grouped) {
  if (traced_backend() && takes_flash(q, k, v, dropout)) {
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, mask, scale));
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, {}, scale, grouped));
}

}  // namespace

void register_attention(torch::Library& meta, torch::Library& above_autograd) {
  meta.impl("_scaled_dot_product_flash_attention_for_cpu", flash);
  meta.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flash_backward);
  above_autograd.impl("scaled_dot_product_attention", scaled_dot_product_attention);
}

}  // namespace stages::meta
