#include <array>
#include <tuple>

#include <torch/types.h>

#include "stages/plan/meta_families.h"

namespace stages::meta {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Three batch_norm(const Tensor& x, const Maybe&, const Maybe&, const Maybe&, const Maybe&, bool train, double, double) {
  const std::int64_t statistics = train ? x.size(1) : 0;
  return {at::empty_like(x), at::empty({statistics}, statistics_of(x)), at::empty({statistics}, statistics_of(x))};
}

bool is_dense(const Tensor& x) { return x.is_contiguous() || x.is_contiguous(x.suggest_memory_format()); }

/// The CPU's kernel makes its result a second time before it lets go of the first, where what it gets is dense.
Three batch_norm_backward(const Tensor& gradient, const Tensor& x, const Maybe& weight, const Maybe&, const Maybe&,
                          const Maybe&, const Maybe&, bool, double, std::array<bool, 3> wanted) {
  const auto options = weight && weight->defined() ? weight->options() : statistics_of(x);
  const auto channels = [&](bool is_wanted) { return is_wanted ? at::empty({x.size(1)}, options) : Tensor(); };
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

Three layer_norm_backward(const Tensor& gradient, const Tensor& x, IntArrayRef normalized, const Tensor&, const Tensor&,
                          const Maybe& weight, const Maybe&, std::array<bool, 3> wanted) {
  const Tensor input = x.contiguous(), dy = gradient.contiguous();
  const auto options = weight && weight->defined() ? weight->options() : x.options();
  const auto affine = [&](bool is_wanted) { return is_wanted ? at::empty(normalized, options) : Tensor(); };
  const Tensor dx = wanted[0] ? at::empty_like(input, at::MemoryFormat::Contiguous) : Tensor();
  const Tensor dweight = affine(wanted[1]), dbias = affine(wanted[2]);
  if (on_cpu() && (wanted[1] || wanted[2])) {
    const Tensor sums = scratch({2, threads(), c10::multiply_integers(normalized)}, statistics_of(x));
  }
  return {dx, dweight, dbias};
}

Three group_norm(const Tensor& x, const Maybe&, const Maybe&, c10::SymInt n, c10::SymInt, c10::SymInt,
                 std::int64_t groups, double) {
  const auto statistics = [&] { return at::empty({n.expect_int(), groups}, statistics_of(x)); };
  return {at::empty_like(x), statistics(), statistics()};
}

Three group_norm_backward(const Tensor&, const Tensor& x, const Tensor&, const Tensor&, const Maybe& weight,
                          c10::SymInt, c10::SymInt channels, c10::SymInt, std::int64_t, std::array<bool, 3> wanted) {
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
