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
/// While a MemoryTrace lives, a part is not computed if the two parts before it had its size and
/// the trace recorded the same for both: the same births and deaths, sizes, owners, operations and
/// flops, with nothing left of either but what it returned. The trace then records a copy, so it
/// equals the trace of all parts computed. The first part differs from the second, since it
/// allocates the gradients. Without a trace every part is computed.
class Repetition {
 public:
  /// The result of `work`, or tensors with the same place in memory that stand for it.
  NamedTensors next(std::int64_t size, const std::function<NamedTensors()>& work);

 private:
  /// A tensor that was returned.
  struct Given {
    std::string name;
    std::optional<std::size_t> survivor;  // the one with its storage, among those of the section
    at::Tensor older;                     // if it existed before
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
  /// What was recorded from `begin` on; nullopt if it leaves or ends anything other than what it
  /// returned.
  static std::optional<Part> part(const MemoryTrace::Recorder& recorder,
                                  const MemoryTrace::Recorder::Place& begin, std::int64_t size,
                                  const NamedTensors& given);
  NamedTensors again(MemoryTrace::Recorder& recorder) const;

  std::optional<Part> last_;
  bool is_known_ = false;  // the last part was like the one before
};

}  // namespace stages
