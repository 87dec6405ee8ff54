#include "stages/model/coral_layer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/precision_map.h"

namespace stages {
namespace {

template <typename Change>
void change_layers(torch::nn::Module& network, Change change) {
  const torch::NoGradGuard no_graph;
  for (const auto& module : network.modules()) {
    if (auto* layer = dynamic_cast<CoralLayer*>(module.get())) change(*layer);
  }
}

}  // namespace

CoralLayer::CoralLayer(std::int64_t in, std::int64_t outputs, const at::TensorOptions& options)
    : Linear(in, /*out=*/1, /*with_bias=*/false, options) {
  bias = register_parameter("bias", torch::empty({outputs}, options));
}

at::Tensor CoralLayer::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  return unbiased(x) + operand(bias, x);
}

void CoralLayer::start_biases() {
  const std::int64_t outputs = bias.size(0);
  bias.copy_(torch::arange(outputs, 0, -1) / static_cast<double>(outputs));
}

void CoralLayer::repeat_weights() {
  weight.set_data(weight.detach().expand({bias.size(0), weight.size(1)}).contiguous());
}

std::shared_ptr<Linear> classifier_layer(std::int64_t in, std::int64_t outputs, OrdinalHead head,
                                         const at::TensorOptions& options) {
  if (head == OrdinalHead::kCoral) return std::make_shared<CoralLayer>(in, outputs, options);
  return std::make_shared<Linear>(in, outputs, /*with_bias=*/true, options);
}

void start_coral_biases(torch::nn::Module& network) {
  change_layers(network, [](CoralLayer& layer) { layer.start_biases(); });
}

void repeat_coral_weights(torch::nn::Module& network) {
  change_layers(network, [](CoralLayer& layer) { layer.repeat_weights(); });
}

}  // namespace stages
