#pragma once

namespace stages {

/// What the tensors of a step on a CPU depend on. How much memory its kernels take is bounded for all alike
/// (convolution_bound.h, product_bound.h).
struct Processor {
  bool bf16 = true;   ///< oneDNN computes convolutions and products of bfloat16; else loops of torch's own do
  bool fp16 = false;  ///< likewise of float16
  /// Large products of float32 are left to oneDNN (stages/model/linear_layer.h).
  bool onednn_multiplies = false;
  bool operator==(const Processor&) const = default;
};

/// The one that runs this process. Which half types it computes is asked of torch.
const Processor& this_processor();

/// Whether oneDNN computes weights' gradients of float32 by unfolded images alone, as it does without AVX2. Asked of
/// it, once in a process, by what a small one takes.
bool onednn_unfolds_images();

}  // namespace stages
