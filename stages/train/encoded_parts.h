#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// What a batch was encoded to part by part, put together as if it had been encoded as a whole:
///
///   for (…) parts.add(step.encode(network, part));
///   step.loss(parts.join(), batch);
///
/// Tensors have rows in the order of the batch's units, as many a part as they like. A scalar (a learned temperature)
/// is the same in every part.
class EncodedParts {
 public:
  /// The next part; every part has the same names.
  void add(NamedTensors encoded);

  /// Each tensor's rows of all parts, one after another; a scalar once. Parts are forgotten, but for their sizes.
  NamedTensors join();

  /// Of tensors shaped as the joined ones: the rows of part `part`, as views. Scalars belong to the first part, and are
  /// not in others; names that are missing in `joined` are missing in the parts.
  NamedTensors cut(const NamedTensors& joined, std::size_t part) const;

 private:
  std::vector<NamedTensors> parts_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> offsets_;  // first row of each part by name, and the end; empty for a scalar
};

}  // namespace stages
