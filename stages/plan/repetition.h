#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stages/plan/recorder.h"
#include "stages/tensor/batch.h"
#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// A part of a batch as a trace recorded it.
struct RecordedPart {
  /// A tensor that the part leaves.
  struct Left {
    std::string name;
    std::optional<std::size_t> survivor;  // the one with its storage, among those of the section
    at::Tensor older;                     // if it existed before
    at::ScalarType dtype = at::kByte;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool operator==(const Left&) const;
  };
  /// What it changed in the description of one of the batch's own tensors.
  struct Described {
    std::string name;  // of the tensor
    TracedStorage before, after;
    bool operator==(const Described&) const = default;
  };
  std::int64_t size;
  MemoryTrace::Recorder::Stretch stretch;
  std::vector<Left> given;                              // what it returned
  std::vector<std::pair<std::size_t, Left>> gradients;  // that it allocated, by parameter
  std::vector<bool> had_gradient;                       // by parameter, when it began
  std::vector<Described> described;
  bool is_repeatable = false;  // for another batch of the same size
  /// True if both recorded the same, regardless of their positions.
  bool is_like(const RecordedPart& other) const;
};

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
///
/// With a Loop, a part is not computed either if the trace has recorded the same part of an earlier
/// batch of the same size, and that left nothing but what it returned and gradients, and changed
/// nothing else: what an optimizer allocates between two steps changes nothing in them.
class Repetition {
 public:
  /// What a step does once for each part of its batch.
  struct Loop {
    const char* name;                  ///< differs for each loop of a step
    const Batch& batch;                ///< the parts are of it
    const torch::nn::Module& network;  ///< the gradients of its parameters are added up
  };
  Repetition() = default;
  /// Everything is borrowed.
  explicit Repetition(const Loop& loop) : loop_(loop) {}

  /// The result of `work`, or tensors with the same place in memory that stand for it.
  NamedTensors next(std::int64_t size, const std::function<NamedTensors()>& work);

 private:
  using Recorder = MemoryTrace::Recorder;

  /// Whatever a part may change, before it.
  struct Before {
    Recorder::Place place;
    std::vector<bool> had_gradient;
    std::vector<std::pair<std::string, TracedStorage>> batch;  // its tensors
    std::vector<Owner> owners;                                 // of all storages
  };
  Before before(const Recorder& recorder) const;
  /// What was recorded since; nullopt if it leaves or ends anything other than what it returned,
  /// and gradients.
  std::optional<RecordedPart> part(const Recorder& recorder, Before before, std::int64_t size,
                                   const NamedTensors& given) const;
  /// Notes which storages the part described anew, and whether it may stand for another's.
  void note_described(const Recorder& recorder, const Before& before, RecordedPart& part) const;
  /// Whether a part that is about to begin is this one.
  bool is_same(const Before& now, const RecordedPart& known, std::int64_t size) const;
  /// Records `part` of an earlier batch.
  NamedTensors anew(Recorder& recorder, RecordedPart part);
  NamedTensors again(Recorder& recorder, const RecordedPart& part);
  /// Makes `now` the last part.
  void advance(std::optional<RecordedPart> now);

  std::optional<Loop> loop_;
  std::vector<at::Tensor> parameters_;
  std::int64_t begin_ = 0;  // units before the next part
  std::optional<RecordedPart> last_;
  bool is_known_ = false;  // the last part was like the one before
};

}  // namespace stages
