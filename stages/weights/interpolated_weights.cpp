#include "stages/weights/interpolated_weights.h"

#include <stdexcept>
#include <string>

#include <torch/types.h>

namespace stages {

NamedTensors interpolated_weights(const NamedTensors& from, const NamedTensors& to, double amount) {
  if (from.size() != to.size())
    throw std::invalid_argument("one has " + std::to_string(from.size()) + " tensors, the other " +
                                std::to_string(to.size()));
  const torch::NoGradGuard no_graph;
  NamedTensors result;
  for (const auto& [name, start] : from) {
    if (!to.contains(name)) throw std::invalid_argument("only one has '" + name + "'");
    const at::Tensor end = to.at(name);
    if (start.sizes() != end.sizes())
      throw std::invalid_argument("'" + name + "' is " + c10::str(start.sizes()) + " in one and " +
                                  c10::str(end.sizes()) + " in the other");
    const at::Tensor begin = start.detach().cpu();
    result.set(name, begin.is_floating_point() ? begin.lerp(end.detach().cpu(), amount) : begin);
  }
  return result;
}

}  // namespace stages
