#include "stages/ranks/gradient_sum.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include <torch/types.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// Of each parameter: 1 if a rank has a gradient of it.
at::Tensor presence(const std::vector<at::Tensor>& parameters, const runner::RankOfRun& ranks) {
  at::Tensor present;
  together(ranks, [&] {
    present = torch::zeros({static_cast<std::int64_t>(parameters.size())}, torch::kInt);
    auto* flag = present.mutable_data_ptr<int>();
    for (const at::Tensor& parameter : parameters) *flag++ = parameter.grad().defined();
  });
  group_of(ranks)->sum(present);
  return present;
}

/// Gives a gradient of zeros to every parameter that has one on another rank only.
void complete_gradients(const std::vector<at::Tensor>& parameters, const runner::RankOfRun& ranks) {
  const at::Tensor present = presence(parameters, ranks);
  together(ranks, [&] {
    const auto* flag = present.const_data_ptr<int>();
    for (const at::Tensor& parameter : parameters) {
      if (*flag++ > 0 && !parameter.grad().defined())
        parameter.mutable_grad() = torch::zeros_like(parameter);
    }
  });
}

/// Gradients of one type that are sent as one message.
struct Bucket {
  std::vector<at::Tensor> gradients;
  std::int64_t numbers = 0;
  at::Tensor flat;  // undefined: the only gradient, which is in order as it is
};

std::vector<Bucket> divided(const std::vector<at::Tensor>& parameters) {
  std::vector<Bucket> buckets;
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const auto size = static_cast<std::int64_t>(gradient.nbytes());
    const bool fits = !buckets.empty() && bytes + size <= kBucketBytes &&
                      buckets.back().gradients.front().scalar_type() == gradient.scalar_type();
    if (!fits) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().gradients.push_back(gradient);
    buckets.back().numbers += gradient.numel();
    bytes += size;
  }
  return buckets;
}

/// Gives the buckets of each type room in one tensor, as large as the largest of them.
void make_room(std::vector<Bucket>& buckets) {
  std::map<at::ScalarType, std::int64_t> most;
  const auto needs_none = [](const Bucket& bucket) {
    return bucket.gradients.size() == 1 && bucket.gradients.front().is_contiguous();
  };
  for (const Bucket& bucket : buckets) {
    std::int64_t& numbers = most[bucket.gradients.front().scalar_type()];
    if (!needs_none(bucket)) numbers = std::max(numbers, bucket.numbers);
  }
  std::map<at::ScalarType, at::Tensor> room;
  for (Bucket& bucket : buckets) {
    if (needs_none(bucket)) continue;
    const at::Tensor& first = bucket.gradients.front();
    at::Tensor& all = room[first.scalar_type()];
    if (!all.defined()) all = torch::empty({most[first.scalar_type()]}, first.options());
    bucket.flat = all.narrow(0, 0, bucket.numbers);
  }
}

/// Calls `move` with each gradient and its place in the message.
template <typename Move>
void for_each_gradient(const Bucket& bucket, Move move) {
  std::int64_t begin = 0;
  for (const at::Tensor& gradient : bucket.gradients) {
    move(gradient, bucket.flat.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
    begin += gradient.numel();
  }
}

}  // namespace

void sum_gradients(const std::vector<at::Tensor>& parameters, const runner::RankOfRun& ranks) {
  if (ranks.size == 1) return;
  const torch::NoGradGuard no_graph;
  RankGroup* const group = group_of(ranks);
  if (group) complete_gradients(parameters, ranks);
  std::vector<Bucket> buckets;
  together(ranks, [&] {
    buckets = divided(parameters);
    make_room(buckets);
  });
  for (const Bucket& bucket : buckets) {
    if (!bucket.flat.defined()) {
      if (group) group->sum(bucket.gradients.front());
      continue;
    }
    for_each_gradient(
        bucket, [](const at::Tensor& gradient, const at::Tensor& place) { place.copy_(gradient); });
    if (group) group->sum(bucket.flat);
    for_each_gradient(
        bucket, [](const at::Tensor& gradient, const at::Tensor& place) { gradient.copy_(place); });
  }
}

}  // namespace stages
