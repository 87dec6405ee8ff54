#include "stages/ranks/gradient_sum.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include <torch/types.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

std::vector<bool> presence(const std::vector<at::Tensor>& parameters) {
  std::vector<bool> present;
  for (const at::Tensor& parameter : parameters) present.push_back(parameter.grad().defined());
  return present;
}

/// True for each parameter that has a gradient on any rank.
std::vector<bool> presence_on_any(const std::vector<at::Tensor>& parameters, RankGroup& group) {
  at::Tensor ranks;  // that have a gradient, of each parameter
  group.together([&] {
    ranks = torch::zeros({static_cast<std::int64_t>(parameters.size())}, torch::kInt);
    auto* count = ranks.mutable_data_ptr<int>();
    for (const bool is_present : presence(parameters)) *count++ = is_present;
  });
  group.sum(ranks);
  const int* const count = ranks.const_data_ptr<int>();
  std::vector<bool> present;
  for (std::size_t i = 0; i < parameters.size(); ++i) present.push_back(count[i] > 0);
  return present;
}

/// Gives a gradient of zeros to every parameter that has one on another rank only.
void complete_gradients(const std::vector<at::Tensor>& parameters,
                        const std::vector<bool>& present) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (present[i] && !parameters[i].grad().defined())
      parameters[i].mutable_grad() = torch::zeros_like(parameters[i]);
  }
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

/// Sums the gradients of `bucket`. A dry run has no `group`.
void send(const Bucket& bucket, RankGroup* group) {
  if (!bucket.flat.defined()) {
    if (group) group->sum(bucket.gradients.front());
    return;
  }
  for_each_gradient(
      bucket, [](const at::Tensor& gradient, const at::Tensor& place) { place.copy_(gradient); });
  if (group) group->sum(bucket.flat);
  for_each_gradient(
      bucket, [](const at::Tensor& gradient, const at::Tensor& place) { gradient.copy_(place); });
}

}  // namespace

void GradientSum::over_ranks(const std::vector<at::Tensor>& parameters,
                             const std::function<at::Tensor()>& compute) {
  if (ranks_.size == 1) {
    compute();
    return;
  }
  RankGroup* const group = group_of(ranks_);
  at::Tensor numbers;
  std::vector<Bucket> buckets;
  const auto make_buckets = [&] {
    const torch::NoGradGuard no_graph;
    buckets = divided(parameters);
    make_room(buckets);
  };
  const auto compute_own = [&]() -> std::int64_t {
    numbers = compute();
    const bool is_agreed = !group || presence(parameters) == present_;
    if (is_agreed) make_buckets();
    return is_agreed ? 0 : 1;
  };
  if (!group) {
    compute_own();
  } else if (group->largest_of(compute_own) > 0) {
    buckets.clear();
    present_ = presence_on_any(parameters, *group);
    group->together([&] {
      complete_gradients(parameters, present_);
      make_buckets();
    });
  }
  const torch::NoGradGuard no_graph;
  std::function<void()> finish;
  if (group && numbers.defined()) finish = group->begin_sum(numbers);
  for (const Bucket& bucket : buckets) send(bucket, group);
  if (finish) finish();
}

}  // namespace stages
