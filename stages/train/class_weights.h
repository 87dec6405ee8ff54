#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
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

/// How a recipe weights the samples of each class in a loss: not at all, balanced, by one number
/// per class in order, or by numbers for named classes (other classes have weight 1).
using ClassWeights = std::variant<std::monostate, BalancedWeights, std::vector<double>,
                                  std::map<std::string, double>>;

/// Reads the option `key`, which has the same form as `class_weights`.
ClassWeights read_class_weights(runner::ConfigReader& reader,
                                std::string_view key = "class_weights");

/// Returns a float32 weight for each class of `train`, or an undefined tensor if all weights are 1.
/// Throws runner::StageError if the weights do not match the classes, the class frequencies are
/// unknown, or no sample has a positive weight.
at::Tensor class_weights_of(const ClassWeights& weights, const Dataset& train);

/// Throws runner::StageError if every sample of the validation data has weight 0, since the loss
/// could then not show which epoch is best. `validation` may be null.
void check_weighted_validation(const at::Tensor& weights, const Dataset* validation);

/// Throws runner::StageError if a sample can belong to any number of classes instead of exactly
/// one.
void check_one_class_each(const Dataset& train);

/// Throws runner::StageError if the training set has no classes, or if the validation set has
/// different classes, or the same classes in a different order. `validation` is null if there is no
/// validation set.
void check_same_classes(const Dataset& train, const Dataset* validation);

}  // namespace stages
