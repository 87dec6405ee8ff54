#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/dataset.h"

namespace stages {

/// The name of the tensor that holds the values to predict for a sample, such as an age. It has the
/// shape (targets) and a floating-point type. DatasetDescription::classes then holds the names of
/// the targets. Such samples have no "label".
inline constexpr std::string_view kTarget = "target";

/// True if samples described by `tensors` have values to predict. `names` is the number of class
/// names in their dataset.
bool has_targets(const std::vector<TensorSpec>& tensors, std::int64_t names);
bool has_targets(const DatasetDescription& data);

/// Implemented by a Dataset that knows the targets of its samples without reading them.
class KnownTargets {
 public:
  virtual ~KnownTargets() = default;
  /// Returns the targets as float64 of shape (samples, targets) on the CPU; undefined if unknown.
  virtual at::Tensor targets() const = 0;
};

/// Returns the targets of all samples; undefined if they are not known without reading samples.
at::Tensor known_targets(const Dataset& data);

/// Returns the mean and the standard deviation of each column of `targets` (samples, targets)
/// float64, which must have at least one row. The standard deviation divides by the number of
/// samples, like scikit-learn's StandardScaler.
TrainedTargets target_statistics(const at::Tensor& targets);

/// Returns `targets` (n, targets) in the units of the network's outputs: standardized, if the
/// network was trained that way. Double stays double; the result is on the device of `targets`.
at::Tensor in_output_unit(const at::Tensor& targets, const TrainedTargets& trained);
/// Returns the network's `outputs` (n, targets) in the units of the targets, as float64.
at::Tensor in_target_unit(const at::Tensor& outputs, const TrainedTargets& trained);

/// The errors of predictions, as scikit-learn's mean_absolute_error, root_mean_squared_error and
/// r2_score define them.
struct TargetErrors {
  double mae = 0, rmse = 0;
  std::optional<double> r2;  ///< nullopt if it is undefined because all targets are equal
};

/// Returns the errors of each target. `predictions` and `targets` are (n, targets) float64 on the
/// CPU, with at least one row. `times` is how many times each row counts; if it is empty, each row
/// counts once.
std::vector<TargetErrors> target_errors(const at::Tensor& predictions, const at::Tensor& targets,
                                        std::span<const std::int32_t> times = {});
/// Returns the means over the targets (scikit-learn's uniform_average); for r2, the mean over the
/// targets for which it is defined.
TargetErrors mean_errors(const std::vector<TargetErrors>& of_targets);

}  // namespace stages
