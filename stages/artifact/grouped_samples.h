#pragma once

#include <cstdint>
#include <string>

namespace stages {

/// Implemented by a Dataset in which some samples belong together, such as the images of one
/// patient, and are therefore not independent.
class GroupedSamples {
 public:
  virtual ~GroupedSamples() = default;
  /// Returns the group of a sample, or an empty string if it has none.
  virtual std::string group_of(std::int64_t index) const = 0;
};

}  // namespace stages
