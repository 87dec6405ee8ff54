#pragma once

#include <string>
#include <vector>

namespace runner {

/// The marks of an axis: multiples of 1, 2 or 5 times a power of ten.
struct Ticks {
  double low = 0, high = 1;  ///< the axis: the range asked for, widened to the outermost marks
  std::vector<double> values;
  std::vector<std::string> labels;  ///< by value, all with equally many decimals
};

/// Marks for what lies between `low` and `high`, which are finite and in any order: at least two, at most `most` (from
/// 3). Where they are equal, the axis reaches to both sides.
Ticks nice_ticks(double low, double high, int most);

/// The same for whole numbers, such as epochs: no mark lies between two of them.
Ticks whole_ticks(double low, double high, int most);

}  // namespace runner
