#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/run_context.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// The number of buckets of value_counts(): for each sign four per power of two from 2^-40 to 2^24,
/// and one for zero and smaller values. Larger values are in the outermost buckets.
inline constexpr std::int64_t kHistogramBuckets = 513;

/// Counts the values of `tensor` in fixed buckets and adds the counts to `counts`, an int64 tensor
/// of kHistogramBuckets elements on the tensor's device. Works in chunks, so it needs at most a few
/// MiB of additional memory. Counts are exact, so they do not depend on the order of the additions.
/// A NaN is counted in any bucket.
void add_value_counts(const at::Tensor& tensor, const at::Tensor& counts);

/// Returns the buckets from the first to the last one with values. A run of empty buckets is one
/// bucket. `counts` is on the CPU, as from add_value_counts().
std::vector<runner::HistogramBucket> buckets_of(const at::Tensor& counts);

/// Counts the gradient values of a step, separately for each parameter.
class GradientHistograms {
 public:
  /// Counts the values of the gradients that exist, which are all on one device; the host does not
  /// wait for the result. With sharded gradients, they may exist on other ranks: `present` says
  /// which parameters have a gradient, and `sum` adds up counts over the ranks.
  explicit GradientHistograms(const NamedTensors& parameters, const std::vector<bool>& present = {},
                              const std::function<void(const at::Tensor& counts)>& sum = {});

  /// Records a histogram "gradients/<parameter>" for each gradient. Waits for a GPU.
  void record(std::int64_t step, runner::RunContext& context) const;

 private:
  std::vector<std::string> names_;
  at::Tensor counts_;  // int64, a row for each name
};

}  // namespace stages
