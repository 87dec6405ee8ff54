#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// The name of the tensor for samples that can have any number of classes, which are then called
/// labels. Its shape is (classes), with 1 for each label of the sample and 0 for all other classes.
/// Such samples have no "label".
inline constexpr std::string_view kLabelSet = "labels";

/// True if `tensors` describes samples that can have any number of their dataset's `classes`
/// classes.
bool has_label_sets(const std::vector<TensorSpec>& tensors, std::int64_t classes);
bool has_label_sets(const DatasetDescription& data);

/// Implemented by a Dataset that knows the labels of its samples without reading them.
class CountedLabels {
 public:
  virtual ~CountedLabels() = default;
  /// Returns the number of samples with each label; empty if unknown.
  virtual std::vector<std::int64_t> label_counts() const = 0;
};

/// Returns the number of samples with each label; empty if they are not known without reading
/// samples.
std::vector<std::int64_t> label_counts(const Dataset& data);

}  // namespace stages
