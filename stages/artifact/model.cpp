#include "stages/artifact/model.h"

#include <torch/types.h>

namespace stages {

runner::HeldMemory Checkpoint::held() const {
  std::size_t bytes = 0;
  if (network) {
    for (const at::Tensor& parameter : network->parameters()) bytes += parameter.nbytes();
    for (const at::Tensor& buffer : network->buffers()) bytes += buffer.nbytes();
  }
  return {.on_device = static_cast<std::int64_t>(bytes)};
}

}  // namespace stages
