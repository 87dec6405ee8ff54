#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"
#include "stages/ranks/state_shard.h"

namespace stages {

/// Sums gradients over all ranks in the backward pass, and keeps each sum only on the rank that
/// updates its parameter (stage 2 of ZeRO, see Sharding):
///
///   ShardedGradients gradients(parameters, shard, ranks);  // one for all steps
///   gradients.begin();
///   for (each part of the batch) {
///     ShardedGradients::Part part(gradients);
///     compute the gradients of the part
///     part.end();
///   }
///   const std::vector<bool> present = gradients.finish();
///
/// Gradients are sent in buckets, each as soon as it is complete, and all ranks send the buckets in
/// the same order. The gradients of a bucket are then dropped on all ranks but one, so that few of
/// them exist at once. All ranks must have the same number of parts; a rank that has nothing left
/// to compute ends empty parts. Everything from begin() to finish() is within the work of a
/// RankGroup::together(). A dry run, which has no other ranks, allocates the same memory.
class ShardedGradients {
 public:
  /// `shard` has the owners of `parameters`. By default, a bucket has at most an eighth of a rank's
  /// part of the gradients, from kSmallestBucket to kMessageBytes.
  ShardedGradients(std::vector<at::Tensor> parameters, StateShard shard,
                   const runner::RankOfRun& ranks, std::int64_t bucket_bytes = 0);

  static constexpr std::int64_t kSmallestBucket = 64 << 10;

  void begin();

  /// While this object lives, backward passes of this thread send what they compute. If memory runs
  /// out, some gradients have been summed and others not: drop them all.
  class [[nodiscard]] Part {
   public:
    explicit Part(ShardedGradients& gradients);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    /// Sends what is left. A gradient that no rank has counts as zeros.
    void end();

   private:
    ShardedGradients& gradients_;
  };

  /// Returns for each parameter whether it has a gradient, which only its owner keeps.
  std::vector<bool> finish();

 private:
  friend struct SendWhenComplete;
  /// Indices of a parameter's first dimension. A scalar has one.
  struct Rows {
    std::size_t parameter;
    std::int64_t begin, count, numbers;
    bool is_last;  // of the parameter
  };
  /// Rows sent as one message.
  struct Bucket {
    int owner;
    at::ScalarType type;
    std::int64_t numbers = 0;
    std::vector<Rows> rows = {};
  };

  void divide(std::int64_t bucket_bytes);
  std::vector<Rows> rows_of(std::size_t parameter, std::int64_t bucket_bytes) const;
  bool is_own(const Bucket& bucket) const { return bucket.owner == shard_.rank; }
  void complete(std::size_t parameter);
  void send(const Bucket& bucket);

  const std::vector<at::Tensor> parameters_;
  const StateShard shard_;
  const runner::RankOfRun ranks_;
  std::vector<Bucket> buckets_;                       // in the order in which they are sent
  std::vector<std::vector<std::size_t>> buckets_of_;  // of each parameter
  std::vector<bool> had_;     // parameters that got a gradient on this rank so far
  std::vector<bool> filled_;  // parameters with a gradient that this rank created only to hold the
                              // sums of other ranks

  // State of the current part:
  std::map<at::ScalarType, at::Tensor> room_;  // memory for one message of each type
  std::vector<bool> is_complete_;              // of each parameter
  std::vector<std::int64_t> missing_;  // per bucket: number of parameters that are not complete
  std::size_t sent_ = 0;               // buckets
  bool is_late_ = false;               // a gradient changed after it was sent
};

}  // namespace stages
