#include "stages/train/gradient_histogram.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

constexpr int kFirstPower = -40, kPerPower = 4;
constexpr std::int64_t kPerSign = (kHistogramBuckets - 1) / 2;
constexpr std::int64_t kHistogramChunk = 1 << 18;  // elements

/// While this object lives, LibTorch may add in any order: integer sums do not depend on the order,
/// and the ordered addition on a GPU would sort the values first.
class AnyOrder {
 public:
  AnyOrder() { set(false, false); }
  ~AnyOrder() { set(algorithms_, warns_); }
  AnyOrder(const AnyOrder&) = delete;
  AnyOrder& operator=(const AnyOrder&) = delete;

 private:
  static void set(bool algorithms, bool warns) {
    at::globalContext().setDeterministicAlgorithms(algorithms, warns);
  }
  const bool algorithms_ = at::globalContext().deterministicAlgorithms();
  const bool warns_ = at::globalContext().deterministicAlgorithmsWarnOnly();
};

/// Returns all elements in any order, without a copy if the tensor is dense.
at::Tensor elements(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense())
    return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
  return tensor.reshape({-1});
}

/// Returns the bucket of each value. log2 of the square needs no absolute value.
at::Tensor bucket_indices(const at::Tensor& values) {
  const at::Tensor part = values.to(torch::kFloat);
  at::Tensor place = part.mul(part).log2_();
  place.add_(-2 * kFirstPower).mul_(kPerPower / 2).floor_().clamp_(-1, kPerSign - 1).add_(1);
  place.mul_(part.sign()).add_(kPerSign);
  return place.to(torch::kLong).clamp_(0, kHistogramBuckets - 1);
}

/// Returns the lower bound of a bucket or, for an index equal to the number of buckets, the upper
/// bound of the last bucket.
double left_of(std::int64_t bucket) {
  const auto bound = [](std::int64_t place) {
    return std::exp2(kFirstPower + static_cast<double>(place) / kPerPower);
  };
  return bucket <= kPerSign ? -bound(kPerSign - bucket) : bound(bucket - kPerSign - 1);
}

}  // namespace

void add_value_counts(const at::Tensor& tensor, const at::Tensor& counts) {
  const torch::NoGradGuard no_graph;
  const AnyOrder any_order;
  const at::Tensor all = elements(tensor.detach()), one = torch::ones({1}, counts.options());
  for (std::int64_t begin = 0; begin < all.numel(); begin += kHistogramChunk) {
    const std::int64_t size = std::min(kHistogramChunk, all.numel() - begin);
    counts.scatter_add_(0, bucket_indices(all.narrow(0, begin, size)), one.expand({size}));
  }
}

std::vector<runner::HistogramBucket> buckets_of(const at::Tensor& counts) {
  const std::span<const std::int64_t> all(counts.const_data_ptr<std::int64_t>(),
                                          static_cast<std::size_t>(counts.numel()));
  std::vector<runner::HistogramBucket> buckets;
  for (std::int64_t i = 0; i < std::ssize(all); ++i) {
    const std::int64_t count = all[static_cast<std::size_t>(i)];
    if (count == 0 && buckets.empty()) continue;
    if (count == 0 && buckets.back().count == 0) buckets.back().right = left_of(i + 1);
    else buckets.push_back({left_of(i), left_of(i + 1), count});
  }
  if (!buckets.empty() && buckets.back().count == 0) buckets.pop_back();
  return buckets;
}

GradientHistograms::GradientHistograms(const NamedTensors& parameters,
                                       const std::vector<bool>& present,
                                       const std::function<void(const at::Tensor&)>& sum) {
  std::vector<at::Tensor> counted;  // parameters
  std::size_t index = 0;
  for (const auto& [name, parameter] : parameters) {
    const bool has_gradient = present.empty() ? parameter.grad().defined() : present[index];
    ++index;
    if (!has_gradient) continue;
    names_.push_back(name);
    counted.push_back(parameter);
  }
  if (counted.empty()) return;
  counts_ = torch::zeros({std::ssize(counted), kHistogramBuckets},
                         counted[0].options().dtype(torch::kLong));
  for (std::int64_t i = 0; i < std::ssize(counted); ++i) {
    const at::Tensor& gradient = counted[static_cast<std::size_t>(i)].grad();
    if (gradient.defined()) add_value_counts(gradient, counts_.select(0, i));
  }
  if (sum) sum(counts_);
}

void GradientHistograms::record(std::int64_t step, runner::RunContext& context) const {
  if (names_.empty()) return;
  const at::Tensor counts = counts_.cpu();
  for (std::int64_t i = 0; i < std::ssize(names_); ++i)
    context.histogram("gradients/" + names_[static_cast<std::size_t>(i)],
                      buckets_of(counts.select(0, i)), step);
}

}  // namespace stages
