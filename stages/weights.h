#pragma once

#include "stages/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// Every parameter and buffer of a network by its dotted name, as the very tensors it computes with.
NamedTensors weights(const torch::nn::Module& network);

/// The parameters that are trained: those that ask for a gradient.
NamedTensors trained_parameters(const torch::nn::Module& network);

/// Copies `values` into the weights of the same names, across devices. Names and shapes must be exactly the network's;
/// throws std::invalid_argument naming the first that is not, before anything is copied.
void set_weights(torch::nn::Module& network, const NamedTensors& values);

}  // namespace stages
