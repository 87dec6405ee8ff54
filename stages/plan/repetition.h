#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "stages/plan/recorder.h"
#include "stages/tensor/batch.h"
#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// A part of a batch, as recorded by a trace.
struct RecordedPart {
  /// A tensor that remains when the part ends.
  struct Left {
    std::string name;
    std::optional<std::size_t> survivor;  // index of its storage among the section's survivors
    at::Tensor older;                     // the tensor, if its storage is older than the part
    at::ScalarType dtype = at::kByte;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool operator==(const Left&) const;
  };
  /// A change in the description of one of the batch's own tensors.
  struct Described {
    std::string name;  // name of the tensor
    TracedStorage before, after;
    bool operator==(const Described&) const = default;
  };
  std::int64_t size;
  MemoryTrace::Recorder::Stretch stretch;
  std::vector<Left> given;                              // the tensors that the part returned
  std::vector<std::pair<std::size_t, Left>> gradients;  // allocated by the part, by parameter
  std::vector<bool> had_gradient;  // per parameter: whether it had a gradient when the part began
  std::vector<Described> described;
  bool is_repeatable = false;  // in another batch of the same size
  /// True if both parts have the same contents, regardless of their positions.
  bool is_like(const RecordedPart& other) const;
};

/// The parts that traces have recorded and may repeat in other batches. Traces may share them if
/// their steps compute the same gradients in the same way, whatever their optimizers do.
class RecordedParts {
 public:
  /// Returns the place for a part of a batch of `units`, after the first `before` of them, in the
  /// loop called `loop`; null if none has been recorded.
  std::shared_ptr<const RecordedPart>& at(const std::string& loop, std::int64_t units,
                                          std::int64_t before) {
    return parts_[{loop, units, before}];
  }
  /// Forgets all parts except those that are a whole batch.
  void keep_whole_batches();

 private:
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::shared_ptr<const RecordedPart>>
      parts_;
};

/// Work repeated for each part of a batch:
///
///   Repetition parts;
///   for (…) encoded.add(parts.next(part.units(), [&] { return step.encode(network, part); }));
///
/// While a MemoryTrace lives, a part is not computed if the previous two parts had the same size
/// and the trace recorded the same things for both: the same allocations and frees, sizes, owners,
/// operations and flops, and neither left anything behind except what it returned. The trace then
/// appends a copy, so it equals the trace of a step that computes all parts. The first part differs
/// from the second, since it allocates the gradients. Without a trace, every part is computed.
///
/// With a Loop, a part is also not computed if the trace, or one that shares its RecordedParts, has
/// recorded the same part of an earlier batch of the same size. That part must have left only its
/// results and gradients, and changed nothing else. Allocations by an optimizer between two steps
/// do not affect the steps.
class Repetition {
 public:
  /// The loop of a step over the parts of its batch.
  struct Loop {
    const char* name;                  ///< unique among the loops of a step
    const Batch& batch;                ///< the batch that is split into the parts
    const torch::nn::Module& network;  ///< its parameters accumulate gradients
  };
  Repetition() = default;
  /// The contents of `loop` are borrowed.
  explicit Repetition(const Loop& loop) : loop_(loop) {}

  /// Returns the result of `work`, or tensors that replace it with the same sizes and storages.
  NamedTensors next(std::int64_t size, const std::function<NamedTensors()>& work);

 private:
  using Recorder = MemoryTrace::Recorder;

  /// The state that a part may change, as it was before the part.
  struct Before {
    Recorder::Place place;
    std::vector<bool> had_gradient;
    std::vector<std::pair<std::string, TracedStorage>> batch;  // its tensors by name
    std::vector<Owner> owners;                                 // of all storages
  };
  Before before(const Recorder& recorder) const;
  /// Returns what was recorded since `before`; null if the part leaves any storage other than
  /// results and gradients, or frees an older one.
  std::shared_ptr<const RecordedPart> part(const Recorder& recorder, Before before,
                                           std::int64_t size, const NamedTensors& given) const;
  /// Records which storages the part describes differently, and whether the part can be repeated in
  /// another batch.
  void note_described(const Recorder& recorder, const Before& before, RecordedPart& part) const;
  /// True if a part that is about to begin is the same as `known`.
  bool is_same(const Before& now, const RecordedPart& known, std::int64_t size) const;
  /// Appends a copy of `part`, which belongs to an earlier batch.
  NamedTensors anew(Recorder& recorder, std::shared_ptr<const RecordedPart> part);
  NamedTensors again(Recorder& recorder, const RecordedPart& part,
                     std::optional<std::size_t> first_storage);
  /// Makes `now` the last part; its storages start at `first_storage`.
  void advance(std::shared_ptr<const RecordedPart> now, std::size_t first_storage);

  std::optional<Loop> loop_;
  std::vector<at::Tensor> parameters_;
  std::int64_t begin_ = 0;                    // units before the next part
  std::shared_ptr<const RecordedPart> last_;  // null: none, or it cannot be repeated
  std::size_t last_storage_ = 0;              // the first storage of the last part
  bool is_known_ = false;                     // the last part was like the part before it
};

}  // namespace stages
