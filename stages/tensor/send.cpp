#include "stages/tensor/send.h"

#include <torch/torch.h>

namespace stages {

at::Tensor send_to(at::Device device, const at::Tensor& tensor) {
  if (!device.is_cuda() || !tensor.is_cpu()) return tensor.to(device);
  return (tensor.is_pinned() ? tensor : tensor.pin_memory()).to(device, /*non_blocking=*/true);
}

}  // namespace stages
