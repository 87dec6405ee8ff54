// Torch's dropout on a GPU. The CPU's kernel would draw from the generator of the CPU.

#include <tuple>

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>
#include <torch/types.h>

namespace stand_in {
namespace {

std::tuple<at::Tensor, at::Tensor> drop(const at::Tensor& x, double probability,
                                        std::optional<bool> is_training) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor mask = at::ones(x.sizes(), x.options().dtype(at::kBool));
  if (!is_training.value_or(true)) return {x.clone(), mask};
  const double kept = 1 - probability;
  mask.bernoulli_(kept);
  return {x.mul(mask).mul_(kept == 0 ? 0 : 1 / kept), mask};
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) { library.impl("native_dropout", &drop); }

}  // namespace
}  // namespace stand_in
