#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "stages/artifact/ordinal_head.h"
#include "stages/model/layers.h"

namespace stages {

/// The head of CORAL: all outputs share one row of weights, and only their biases differ; `weight`
/// (1, in), `bias` (outputs).
class CoralLayer : public Linear {
 public:
  CoralLayer(std::int64_t in, std::int64_t outputs, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const override;

  /// Sets the biases to values that decrease from 1 to 1 / outputs, as coral-pytorch does
  /// (preinit_bias=True).
  void start_biases();
  /// Repeats the row of weights for each output. This turns the layer into an ordinary linear layer
  /// with the same outputs, in the form that other libraries expect.
  void repeat_weights();
};

/// Returns the last layer of a classifier with this many outputs: a CoralLayer, or a linear layer
/// with a bias. Its weights are uninitialized.
std::shared_ptr<Linear> classifier_layer(std::int64_t in, std::int64_t outputs, OrdinalHead head,
                                         const at::TensorOptions& options);

/// Calls CoralLayer::start_biases() or repeat_weights() for every CoralLayer in the network.
void start_coral_biases(torch::nn::Module& network);
void repeat_coral_weights(torch::nn::Module& network);

}  // namespace stages
