#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/dataset.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// By the inverse frequency of each class: samples / (classes * samples of the class), as scikit-learn does.
struct BalancedWeights {};

/// How much a sample weighs in a loss, by its class, as a recipe says it: not at all by its class, balanced, a number
/// for each class in order, or one for each class that is named, where the others weigh 1.
using ClassWeights = std::variant<std::monostate, BalancedWeights, std::vector<double>, std::map<std::string, double>>;

/// Reads the option `class_weights`.
ClassWeights read_class_weights(runner::ConfigReader& reader);

/// A float32 number for each class of `train`; undefined where all weigh 1. Throws runner::StageError where the weights
/// do not suit the classes, or nothing says how frequent these are.
at::Tensor class_weights_of(const ClassWeights& weights, const Dataset& train);

}  // namespace stages
