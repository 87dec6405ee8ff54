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

/// By the inverse frequency of each class: samples / (classes * samples of the class), as
/// scikit-learn does.
struct BalancedWeights {};

/// How much a sample weighs in a loss, by its class, as a recipe says it: not at all by its class,
/// balanced, a number for each class in order, or one for each class that is named, where the
/// others weigh 1.
using ClassWeights = std::variant<std::monostate, BalancedWeights, std::vector<double>,
                                  std::map<std::string, double>>;

/// Reads the option `class_weights`.
ClassWeights read_class_weights(runner::ConfigReader& reader);

/// A float32 number for each class of `train`; undefined where all weigh 1. Throws
/// runner::StageError where the weights do not suit the classes, nothing says how frequent these
/// are, or no sample would weigh anything.
at::Tensor class_weights_of(const ClassWeights& weights, const Dataset& train);

/// Throws runner::StageError where every sample of the validation data, which may be null, weighs
/// 0: no loss tells which epoch was best then.
void check_weighted_validation(const at::Tensor& weights, const Dataset* validation);

/// Throws runner::StageError where a training set has no classes, or its validation set, null:
/// there is none, others or in another order.
void check_same_classes(const Dataset& train, const Dataset* validation);

}  // namespace stages
