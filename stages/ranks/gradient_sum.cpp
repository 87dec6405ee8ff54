#include "stages/ranks/gradient_sum.h"

#include <cstdint>

#include <torch/types.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// Gives a gradient of zeros to every parameter that has one on another rank only.
void complete_gradients(const std::vector<at::Tensor>& parameters, RankGroup& group) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  at::Tensor present = torch::zeros({count}, torch::kInt);
  auto* const flags = present.mutable_data_ptr<int>();
  for (std::int64_t i = 0; i < count; ++i)
    flags[i] = parameters[static_cast<std::size_t>(i)].grad().defined();
  group.sum(present);
  for (std::int64_t i = 0; i < count; ++i) {
    const at::Tensor& parameter = parameters[static_cast<std::size_t>(i)];
    if (flags[i] > 0 && !parameter.grad().defined())
      parameter.mutable_grad() = torch::zeros_like(parameter);
  }
}

/// One message for several gradients of one type.
void sum_bucket(const std::vector<at::Tensor>& gradients, RankGroup* group) {
  if (gradients.size() == 1 && gradients.front().is_contiguous()) {
    if (group) group->sum(gradients.front());
    return;
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& gradient : gradients) flat.push_back(gradient.reshape({-1}));
  const at::Tensor all = torch::cat(flat);
  flat.clear();
  if (group) group->sum(all);
  std::int64_t begin = 0;
  for (const at::Tensor& gradient : gradients) {
    gradient.copy_(all.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
    begin += gradient.numel();
  }
}

}  // namespace

void sum_gradients(const std::vector<at::Tensor>& parameters, const runner::RankOfRun& ranks) {
  if (ranks.size == 1) return;
  const torch::NoGradGuard no_graph;
  RankGroup* const group = group_of(ranks);
  if (group) complete_gradients(parameters, *group);
  std::vector<at::Tensor> bucket;
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const auto size = static_cast<std::int64_t>(gradient.nbytes());
    const bool fits = bucket.empty() || (bytes + size <= kBucketBytes &&
                                         bucket.front().scalar_type() == gradient.scalar_type());
    if (!fits) {
      sum_bucket(bucket, group);
      bucket.clear();
      bytes = 0;
    }
    bucket.push_back(gradient);
    bytes += size;
  }
  if (!bucket.empty()) sum_bucket(bucket, group);
}

}  // namespace stages
