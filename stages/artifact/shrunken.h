#pragma once

#include <memory>

#include "stages/artifact/artifacts.h"

namespace stages {

/// A model of the same modules, by the same names and with the same dropout, in which each holds as few numbers as may
/// be; and data for it. Nothing is read for it: its weights are random.
struct Shrunken {
  std::shared_ptr<const Model> model;
  DatasetDescription data;
};

/// A model that can be made small, to compare ways of computing its gradient. Others are compared as they are.
class ShrinkableModel {
 public:
  virtual ~ShrinkableModel() = default;
  /// For such data. The forward() of this model runs the small one's networks too.
  virtual Shrunken shrunken(const DatasetDescription& data) const = 0;
};

}  // namespace stages
