#include "stages/weights/tensor_digest.h"

#include <algorithm>
#include <vector>

#include <torch/types.h>

#include "runner/shared/disk/digest.h"

namespace stages {

std::string tensor_digest(const NamedTensors& tensors) {
  std::vector<NamedTensors::Item> sorted(tensors.begin(), tensors.end());
  std::ranges::sort(sorted, {}, &NamedTensors::Item::first);
  runner::Digest digest;
  for (const auto& [name, tensor] : sorted) {
    const at::Tensor bytes = tensor.cpu().contiguous();
    digest.update(name + '\n');
    digest.update({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  return digest.finish();
}

}  // namespace stages
