// Attention on a GPU, computed by the CPU's kernels.

#include <array>
#include <optional>
#include <tuple>

#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>
#include <torch/types.h>

#include "tests/support/stand_in/host_views.h"
#include "tests/support/stand_in/streams.h"

namespace stand_in {
namespace {

std::int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                    std::optional<double> scale, bool enable_gqa) {
  const auto host_like = [](const at::Tensor& x) {
    return at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kCPU))
        .set_requires_grad(x.requires_grad());
  };
  const std::int64_t chosen = at::_fused_sdp_choice(
      host_like(query), host_like(key), host_like(value),
      mask ? std::optional(host_like(*mask)) : mask, dropout, is_causal, scale, enable_gqa);
  return chosen == static_cast<std::int64_t>(sdp::SDPBackend::math)
             ? chosen
             : static_cast<std::int64_t>(sdp::SDPBackend::overrideable);
}

using Attended = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
                            c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

Attended attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                const std::optional<at::Tensor>& mask, double dropout, bool is_causal, bool,
                std::optional<double> scale) {
  const c10::DeviceGuard guard(query.device());
  HostViews views(streams().launch(query.device(), "attention"));
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto view = [&](const at::Tensor& x) { return views.of(x, /*writes=*/false); };
  const auto kernel = [=, q = view(query), k = view(key), v = view(value),
                       m = mask ? std::optional(view(*mask)) : mask] {
    const auto [output, sums] =
        at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, is_causal, m, scale);
    return std::vector<at::Tensor>{output, sums};
  };
  const std::vector<at::Tensor> results = views.run(kernel, query.device());
  const auto none = [&] { return at::empty({0}, query.options().dtype(at::kLong)); };
  return {results[0],  results[1], none(), none(), query.size(2),
          key.size(2), none(),     none(), none()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attend_backward(
    const at::Tensor& slopes, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& mask, std::array<bool, 4>, const at::Tensor& output,
    const at::Tensor& sums, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt,
    double dropout, bool is_causal, const at::Tensor&, const at::Tensor&,
    std::optional<double> scale) {
  const c10::DeviceGuard guard(query.device());
  HostViews views(streams().launch(query.device(), "attention_backward"));
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto view = [&](const at::Tensor& x) { return views.of(x, /*writes=*/false); };
  const auto kernel = [=, d = view(slopes), q = view(query), k = view(key), v = view(value),
                       o = view(output), s = view(sums),
                       m = mask.defined() ? std::optional(view(mask)) : std::nullopt] {
    const auto [of_query, of_key, of_value] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(d, q, k, v, o, s, dropout,
                                                                 is_causal, m, scale);
    return std::vector<at::Tensor>{of_query, of_key, of_value};
  };
  const std::vector<at::Tensor> results = views.run(kernel, query.device());
  return {results[0], results[1], results[2], at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_scaled_dot_product_fused_attention_overrideable", &attend);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", &attend_backward);
}

[[maybe_unused]] const bool kAttentionIsRegistered = [] {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
  return true;
}();

}  // namespace
}  // namespace stand_in
