#include "stages/train/joined_statistics.h"

#include <cmath>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/numerics/running_statistics.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

at::Tensor in_one(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& one : tensors) flat.push_back(one.detach().to(torch::kDouble).flatten());
  return torch::cat(flat);
}

void put_back(const at::Tensor& values, const std::vector<at::Tensor>& tensors) {
  std::int64_t begin = 0;
  for (const at::Tensor& one : tensors) {
    one.copy_(values.narrow(0, begin, one.numel()).view(one.sizes()));
    begin += one.numel();
  }
}

/// The batches of one layer in a step, in rank order.
struct BatchesOfLayer {
  std::int64_t before = 0;  // the step, if averaged
  std::int64_t own = 0, later = 0, all = 0;
  std::optional<double> momentum;

  /// The factor of the statistics before the step, after `batches` of it.
  double kept(std::int64_t batches) const {
    if (momentum) return std::pow(1 - *momentum, static_cast<double>(batches));
    return before == 0 && batches == 0
               ? 1
               : static_cast<double>(before) / static_cast<double>(before + batches);
  }
  /// The factor of what this rank's batches have added.
  double of_own() const {
    if (momentum) return std::pow(1 - *momentum, static_cast<double>(later));
    return static_cast<double>(before + own) / static_cast<double>(before + all);
  }
};

}  // namespace

JoinedStatistics::JoinedStatistics(const torch::nn::Module& network, const runner::RankOfRun& ranks,
                                   bool counts)
    : ranks_(ranks), counts_(counts) {
  for (const auto& module : network.modules()) {
    auto* const layer = dynamic_cast<CollectingLayer*>(module.get());
    if (!layer || !layer->collects_statistics()) continue;
    const RunningNumbers now = layer->running();
    layers_.push_back({layer, now.batches, in_one(now.statistics)});
  }
}

/// Returns for each rank and layer how many of the rank's batches count.
at::Tensor JoinedStatistics::batches_of_ranks() const {
  const at::Tensor batches = torch::zeros({ranks_.size, std::ssize(layers_)}, torch::kLong);
  auto* own = batches.mutable_data_ptr<std::int64_t>() + ranks_.rank * std::ssize(layers_);
  for (const Layer& one : layers_)
    *own++ = counts_ ? one.layer->running().batches - one.batches : 0;
  if (RankGroup* const group = group_of(ranks_)) group->sum_in_work(batches);
  return batches;
}

void JoinedStatistics::join() const {
  if (layers_.empty()) return;
  const torch::NoGradGuard no_graph;
  const at::Tensor of_ranks = batches_of_ranks();
  const auto* const batches = of_ranks.const_data_ptr<std::int64_t>();
  std::vector<BatchesOfLayer> counted;
  std::vector<at::Tensor> added;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& one = layers_[i];
    const RunningNumbers now = one.layer->running();
    BatchesOfLayer of{.before = one.batches, .momentum = now.momentum};
    for (int rank = 0; rank < ranks_.size; ++rank) {
      const std::int64_t here = batches[static_cast<std::size_t>(rank) * layers_.size() + i];
      of.all += here;
      if (rank == ranks_.rank) of.own = here;
      if (rank > ranks_.rank) of.later += here;
    }
    counted.push_back(of);
    added.push_back(of.own > 0
                        ? (in_one(now.statistics) - of.kept(of.own) * one.statistics) * of.of_own()
                        : torch::zeros_like(one.statistics));
  }
  const at::Tensor sum = torch::cat(added);
  if (RankGroup* const group = group_of(ranks_)) group->sum_in_work(sum);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& one = layers_[i];
    const BatchesOfLayer& of = counted[i];
    const RunningNumbers now = one.layer->running();
    put_back(of.kept(of.all) * one.statistics + sum.narrow(0, begin, one.statistics.numel()),
             now.statistics);
    one.layer->count_batches(of.all - (now.batches - one.batches));
    begin += one.statistics.numel();
  }
}

}  // namespace stages
