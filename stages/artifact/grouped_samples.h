#pragma once

#include <cstdint>
#include <string>

namespace stages {

/// A dataset with samples that belong together, such as the images of one patient, so that they are
/// not independent of each other. It is also a Dataset.
class GroupedSamples {
 public:
  virtual ~GroupedSamples() = default;
  /// Returns the group of a sample; empty: it belongs to no other sample.
  virtual std::string group_of(std::int64_t index) const = 0;
};

}  // namespace stages
