#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "stages/plan/recorder.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// Work that is done once for each part of a batch:
///
///   Repetition parts;
///   for (…) encoded.add(parts.next(part.units(), [&] { return step.encode(network, part); }));
///
/// Where a MemoryTrace lives, a part is not computed if the two before it were of its size and the
/// trace noted the same of both: the same births and deaths, sizes, owners, operations and flops,
/// and nothing of either is left but what it gave back. The trace then notes the same again, so
/// that it is the one of all parts computed. The first part differs from the second, since it makes
/// the gradients. Elsewhere everything is computed.
class Repetition {
 public:
  /// What `work` gives back, or tensors with the same place in memory that stand for it.
  NamedTensors next(std::int64_t size, const std::function<NamedTensors()>& work);

 private:
  /// A tensor that was given back.
  struct Given {
    std::string name;
    std::optional<std::size_t> survivor;  // whose storage it is, among those of the stretch
    at::Tensor older;                     // where it was there before
    at::ScalarType dtype = at::kByte;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool operator==(const Given&) const;
  };
  struct Part {
    std::int64_t size;
    MemoryTrace::Recorder::Stretch stretch;
    std::vector<Given> given;
  };
  /// What was noted from `begin` on; nullopt where it leaves or ends something else than it gave
  /// back.
  static std::optional<Part> part(const MemoryTrace::Recorder& recorder,
                                  const MemoryTrace::Recorder::Place& begin, std::int64_t size,
                                  const NamedTensors& given);
  NamedTensors again(MemoryTrace::Recorder& recorder) const;

  std::optional<Part> last_;
  bool is_known_ = false;  // the last was like the one before
};

}  // namespace stages
