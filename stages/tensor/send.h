#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace stages {

/// `tensor` on `device`. To a GPU it goes by way of pinned memory and the copy is queued after what the GPU still has
/// to do: from other memory the host would wait until all of that is done.
at::Tensor send_to(at::Device device, const at::Tensor& tensor);

}  // namespace stages
