#include "stages/train/joined_statistics.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/convolution_layers.h"
#include "stages/numerics/prepared_network.h"
#include "stages/numerics/running_statistics.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/gradient.h"
#include "tests/support/by_ranks.h"
#include "tests/support/distance.h"
#include "tests/support/gradients.h"

namespace stages {
namespace {

/// A layer and the BatchNorm of its outputs, in float64 and in training mode.
class CollectingNetwork final : public torch::nn::Module {
 public:
  CollectingNetwork()
      : linear_(register_module("linear", torch::nn::Linear(2, 4))),
        norm_(register_module(
            "norm", std::make_shared<BatchNorm>(4, BatchNormStatistics::kCollected, at::kDouble))) {
    to(torch::kDouble);
    const torch::NoGradGuard no_graph;
    at::Generator generator = at::detail::createCPUGenerator(19);
    for (const at::Tensor& parameter : parameters()) parameter.normal_(0.5, 0.5, generator);
  }
  at::Tensor forward(const at::Tensor& points) { return norm_->forward(linear_->forward(points)); }

 private:
  torch::nn::Linear linear_;
  const std::shared_ptr<BatchNorm> norm_;
};

/// Normalizes the points of each group; those of the last group in two parts.
class NormedGroupStep final : public TinyStep {
 public:
  NormedGroupStep() { coupling = Coupling::kPerGroup; }
  bool mixes_samples() const override { return true; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    auto& net = dynamic_cast<CollectingNetwork&>(network);
    std::vector<at::Tensor> normed;
    for (std::int64_t group = 0; group < part.units(); ++group) {
      for (const at::Tensor& points : part.part(group, group + 1)["image"].split(3))
        normed.push_back(net.forward(points));
    }
    return {{"image", torch::cat(normed)}};
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch&) const override {
    return {{"cross_entropy", torch::tanh(encoded.at("image")).pow(3).sum()}};
  }
  NamedTensors score(const NamedTensors&, const Batch&) const override { return {}; }
};

Batch groups_of_points() {
  return Batch(
      {{"image", torch::randn({14, 2}, at::detail::createCPUGenerator(6), torch::kDouble)}}, 5,
      {{"image", {0, 2, 5, 7, 9, 14}}});
}

TEST(JoinedStatistics, RanksCollectTheStatisticsOfOneProcess) {
  const auto make_net = [] { return std::make_shared<CollectingNetwork>(); };
  const auto make_step = [](CollectingNetwork&) { return NormedGroupStep(); };
  for (const std::int64_t micro_batch : {0, 1})
    expect_equal_to_one_rank(groups_of_points(), {.micro_batch = micro_batch}, make_net, make_step);
}

/// Averages the statistics of two batches, by each of `size` ranks, and returns the buffers.
std::vector<at::Tensor> averaged_by_ranks(int size) {
  std::vector<at::Tensor> all(static_cast<std::size_t>(size));
  run_as_ranks(size, [&](const runner::RankOfRun& own) {
    const auto kept = std::make_shared<CollectingNetwork>();
    CollectingNetwork& network = *kept;
    network.forward(torch::ones({5, 2}, torch::kDouble));  // statistics to be forgotten
    const ScopedNewStatistics renewed(network);
    for (const std::int64_t number : {1, 2})
      see_in_training(NormedGroupStep(), {network, {}, at::kCPU}, groups_of_points(), {},
                      {7, number}, own);
    std::vector<at::Tensor> means;
    for (const auto& buffer : network.named_buffers()) {
      if (!buffer.key().ends_with("num_batches_tracked")) means.push_back(buffer.value());
    }
    all[static_cast<std::size_t>(own.rank)] = in_a_row(means);
  });
  return all;
}

TEST(JoinedStatistics, RanksAverageTheStatisticsOfOneProcess) {
  const at::Tensor one = averaged_by_ranks(1).front();
  for (const int size : {2, 3, 6}) {
    const std::vector<at::Tensor> all = averaged_by_ranks(size);
    for (const at::Tensor& own : all) {
      EXPECT_LT(distance(own, one), 1e-12) << size;
      EXPECT_TRUE(own.equal(all.front())) << size;
    }
  }
}

}  // namespace
}  // namespace stages
