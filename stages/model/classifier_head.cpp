#include "stages/model/classifier_head.h"

#include <cmath>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/coral_layer.h"
#include "stages/model/initializer.h"

namespace stages {

ClassifierHead::ClassifierHead(const ClassifierHeadOptions& head, std::int64_t features,
                               std::int64_t outputs, const at::TensorOptions& options) {
  int next = 0;
  std::int64_t in = features;
  const auto add = [&](std::int64_t out, bool is_last) {
    Layer layer;
    const double dropout = layers_.empty() ? head.dropout : head.dropout / 2;
    layer.dropout = register_module(std::to_string(next++), std::make_shared<Dropout>(dropout));
    layer.linear = register_module(
        std::to_string(next++),
        classifier_layer(in, out, is_last ? head.ordinal : OrdinalHead::kNone, options));
    ++next;  // ReLU
    if (!is_last) {
      layer.norm = register_module(
          std::to_string(next++),
          std::make_shared<BatchNorm>(out, BatchNormStatistics::kCollected, options));
    }
    layers_.push_back(std::move(layer));
    in = out;
  };
  for (const std::int64_t width : head.widths) add(width, false);
  add(outputs, true);
}

at::Tensor ClassifierHead::forward(const at::Tensor& features) const {
  const OwnPrecision own(*this);
  at::Tensor x = own(features);
  for (const Layer& layer : layers_) {
    x = layer.linear->forward(layer.dropout->forward(x));
    if (layer.norm) x = layer.norm->forward(x.relu_());
  }
  return x;
}

void ClassifierHead::initialize(const std::string& path, std::uint64_t seed) {
  apply(
      [&](const std::string& name, torch::nn::Module& module) {
        if (const auto* linear = module.as<Linear>()) {
          const Distribution uniform = {Distribution::Kind::kUniform,
                                        1 / std::sqrt(static_cast<double>(linear->weight.size(1)))};
          draw_weight(linear->weight, uniform, name + ".weight", seed);
          draw_weight(linear->bias, uniform, name + ".bias", seed);
        } else if (const auto* norm = module.as<BatchNorm>()) {
          draw_weight(norm->weight, {Distribution::Kind::kOne}, name + ".weight", seed);
          draw_weight(norm->bias, {Distribution::Kind::kZero}, name + ".bias", seed);
        }
      },
      path);
}

void ClassifierHead::make_zero() {
  const torch::NoGradGuard no_graph;
  for (at::Tensor& weight : parameters()) weight.zero_();
}

}  // namespace stages
