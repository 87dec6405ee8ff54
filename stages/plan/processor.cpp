#include "stages/plan/processor.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"

namespace stages {
namespace {

/// What torch itself says of its oneDNN, if there is one.
bool torch_says(const char* operation) {
  const auto found = c10::Dispatcher::singleton().findSchema({operation, ""});
  return found && found->typed<bool()>().call();
}

/// MKL, which torch asks, has its best kernels for Intel's: on two cores of an EPYC 9004 it computes 190 GFLOPS, and
/// oneDNN 215.
bool is_quicker_by_onednn() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

}  // namespace

const Processor& this_processor() {
  static const Processor processor{.bf16 = torch_says("mkldnn::_is_mkldnn_bf16_supported"),
                                   .fp16 = torch_says("mkldnn::_is_mkldnn_fp16_supported"),
                                   .onednn_multiplies = is_quicker_by_onednn()};
  return processor;
}

bool onednn_unfolds_images() {
  static const bool is_so = [] {
    constexpr std::int64_t kChannels = 16, kSide = 8, kKernel = 5, kPadding = kKernel / 2;
    const c10::InferenceMode no_gradients;
    const at::Tensor image = torch::zeros({1, kChannels, kSide, kSide}),
                     weight = torch::zeros({kChannels, kChannels, kKernel, kKernel});
    const CountingAllocator counter;
    at::convolution_backward(image, image, weight, {}, {1, 1}, {kPadding, kPadding}, {1, 1}, /*transposed=*/false,
                             {0, 0}, /*groups=*/1, {false, true, false});
    // A direct kernel has the gradient twice, the second time in an order of its own; the other kind takes four times
    // as much for each thread, and the unfolded image.
    return counter.peak_bytes() > 4 * static_cast<std::int64_t>(weight.nbytes());
  }();
  return is_so;
}

}  // namespace stages
