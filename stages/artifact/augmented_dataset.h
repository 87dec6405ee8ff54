#pragma once

#include <memory>

#include "stages/artifact/dataset.h"

namespace stages {

/// A dataset of which a training sees other samples than whoever looks at it without training: augmented anew in each
/// epoch. It is one Dataset beside that, whose own samples are the same in every epoch.
class AugmentedDataset {
 public:
  virtual ~AugmentedDataset() = default;
  /// The same samples as a training sees them.
  virtual std::shared_ptr<const Dataset> for_training() const = 0;
};

/// What a training reads of `data`.
inline std::shared_ptr<const Dataset> as_trained(const std::shared_ptr<const Dataset>& data) {
  const auto* augmented = dynamic_cast<const AugmentedDataset*>(data.get());
  return augmented ? augmented->for_training() : data;
}

}  // namespace stages
