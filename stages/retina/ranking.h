#pragma once

#include <optional>
#include <span>

namespace stages {

/// A sample of one of two classes, and what ranks it.
struct RankedSample {
  double score = 0;  ///< higher: more likely of the second class
  bool is_second = false;
};

/// The area under the ROC curve: how often a sample of the second class is ranked above one of the first, where those
/// of equal score count half (Mann and Whitney). nullopt where there are none of either class.
std::optional<double> ranked_area(std::span<RankedSample> samples);

}  // namespace stages
