#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/artifact/dataset.h"

namespace runner {
class RunContext;
}

namespace stages {

/// The features of the training data, followed by those of the validation data.
struct FeatureRows {
  at::Tensor features, labels;
  std::int64_t trained = 0;  ///< rows of the training data

  at::Tensor of_training(const at::Tensor& rows) const { return rows.narrow(0, 0, trained); }
  at::Tensor of_validation(const at::Tensor& rows) const {
    return rows.narrow(0, trained, rows.size(0) - trained);
  }
};

/// Returns the width of the data's features. Throws if it has none.
std::int64_t feature_width(const DatasetDescription& data);

/// Reads all features as values of type `type`. Samples that the data skips are left out.
/// `validation` may be null. Throws if a label is outside the classes, or if no training sample can
/// be read.
FeatureRows read_feature_rows(const Dataset& train, const Dataset* validation, at::ScalarType type,
                              const runner::RunContext& context);

}  // namespace stages
