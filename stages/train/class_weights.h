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

/// Weights by inverse class frequency: samples / (classes * samples of the class), as in
/// scikit-learn.
struct BalancedWeights {};

/// How a recipe weights the samples of each class in a loss: not at all, balanced, one number per
/// class in order, or numbers for named classes, where the others weigh 1.
using ClassWeights = std::variant<std::monostate, BalancedWeights, std::vector<double>,
                                  std::map<std::string, double>>;

/// Reads the option `class_weights`.
ClassWeights read_class_weights(runner::ConfigReader& reader);

/// A float32 weight for each class of `train`; undefined if all weigh 1. Throws runner::StageError
/// if the weights do not suit the classes, the class frequencies are unknown, or no sample has a
/// positive weight.
at::Tensor class_weights_of(const ClassWeights& weights, const Dataset& train);

/// Throws runner::StageError if every sample of the validation data weighs 0: no loss could then
/// show which epoch was best. `validation` may be null.
void check_weighted_validation(const at::Tensor& weights, const Dataset* validation);

/// Throws runner::StageError if the training set has no classes, or if the validation set has
/// others or in another order. A null validation set means that there is none.
void check_same_classes(const Dataset& train, const Dataset* validation);

}  // namespace stages
