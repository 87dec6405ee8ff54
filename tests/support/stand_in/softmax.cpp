// Softmax of half precision with a float32 result, which a GPU computes in one kernel and a CPU
// rejects.

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>
#include <torch/types.h>

#include "tests/support/stand_in/host_views.h"
#include "tests/support/stand_in/streams.h"

namespace stand_in {
namespace {

using Forward = at::Tensor (*)(const at::Tensor& x, std::int64_t dim, bool half_to_float);
using Backward = at::Tensor (*)(const at::Tensor& slopes, const at::Tensor& output,
                                std::int64_t dim, at::ScalarType type);

template <Forward kForward>
at::Tensor forward(const at::Tensor& x, std::int64_t dim, bool half_to_float) {
  const c10::DeviceGuard guard(x.device());
  HostViews views(streams().launch(x.device(), "softmax"));
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto kernel = [=, host = views.of(x, /*writes=*/false)]() -> std::vector<at::Tensor> {
    return {kForward(half_to_float ? host.to(at::kFloat) : host, dim, false)};
  };
  return views.run(kernel, x.device()).front();
}

template <Backward kBackward>
at::Tensor backward(const at::Tensor& slopes, const at::Tensor& output, std::int64_t dim,
                    at::ScalarType type) {
  const c10::DeviceGuard guard(slopes.device());
  HostViews views(streams().launch(slopes.device(), "softmax_backward"));
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto kernel = [=, host_slopes = views.of(slopes, /*writes=*/false),
                       host_output = views.of(output, /*writes=*/false),
                       own = slopes.scalar_type()]() -> std::vector<at::Tensor> {
    return {kBackward(host_slopes, host_output, dim, own).to(type)};
  };
  return views.run(kernel, slopes.device()).front();
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_softmax", &forward<&at::_softmax>);
  library.impl("_log_softmax", &forward<&at::_log_softmax>);
  library.impl("_softmax_backward_data", &backward<&at::_softmax_backward_data>);
  library.impl("_log_softmax_backward_data", &backward<&at::_log_softmax_backward_data>);
}

}  // namespace
}  // namespace stand_in
