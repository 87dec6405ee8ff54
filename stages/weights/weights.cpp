#include "stages/weights/weights.h"

#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/printable.h"
#include "stages/tensor/tensor_memory.h"

namespace stages {

std::string base_of(const torch::nn::Module& network) {
  const auto* based = dynamic_cast<const OnFrozenBase*>(&network);
  return based ? based->base() : "";
}

NamedTensors weights(const torch::nn::Module& network) {
  const auto* based = dynamic_cast<const OnFrozenBase*>(&network);
  NamedTensors result;
  const auto add = [&](const auto& item) {
    if (!based || !based->is_base(item.key())) result.set(item.key(), item.value());
  };
  for (const auto& item : network.named_parameters()) add(item);
  for (const auto& item : network.named_buffers()) add(item);
  return result;
}

NamedTensors weights_with_memory(const torch::nn::Module& network) {
  NamedTensors result;
  for (const auto& [name, tensor] : weights(network)) {
    if (has_memory(tensor)) result.set(name, tensor);
  }
  return result;
}

NamedTensors trained_parameters(const torch::nn::Module& network) {
  NamedTensors result;
  for (const auto& item : network.named_parameters()) {
    if (item.value().requires_grad()) result.set(item.key(), item.value());
  }
  return result;
}

void check_weights(const NamedTensors& own, const NamedTensors& values) {
  for (const auto& [name, tensor] : values) {
    if (!own.contains(name))
      throw std::invalid_argument("the network has no weight '" + name + "'");
    if (own.at(name).sizes() != tensor.sizes())
      throw std::invalid_argument("'" + name + "' has a different shape");
  }
  for (const auto& [name, tensor] : own) {
    if (!values.contains(name)) throw std::invalid_argument("the weight '" + name + "' is missing");
  }
}

void set_weights(torch::nn::Module& network, const NamedTensors& values) {
  const NamedTensors own = weights(network);
  check_weights(own, values);
  const torch::NoGradGuard no_graph;
  for (const auto& [name, tensor] : own) {
    if (has_memory(tensor)) tensor.copy_(values.at(name));
  }
}

void refuse_integers(const std::string& name, const at::Tensor& saved, const at::Tensor& weight) {
  if (!at::isIntegralType(saved.scalar_type(), /*includeBool=*/true) || !weight.is_floating_point())
    return;
  throw runner::StageError(runner::ErrorCode::kDamagedWeights,
                           "the tensor '" + runner::printable_ascii(name) +
                               "' contains integers (" +
                               std::string(c10::toString(saved.scalar_type())) +
                               ") instead of floating-point numbers, and their scale is missing")
      .with_help("use weights that are not quantized");
}

}  // namespace stages
