#include "stages/ranks/rank_batch_norm.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/model/normalize_batch.h"
#include "stages/ranks/rank_group.h"
#include "tests/support/distance.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

/// The output of a layer for some maps, and the gradients.
struct NormalizedMaps {
  at::Tensor y, dx, d_weight, d_bias, running_mean, running_var;
};

/// A layer's tensors, and the gradient of its output.
struct LayerOnMaps {
  at::Tensor maps, slopes, weight, bias, running_mean, running_var;

  LayerOnMaps(at::IntArrayRef shape, at::ScalarType type) {
    torch::manual_seed(9);
    const at::Tensor drawn = torch::randn(shape, torch::kDouble) * 2 + 3;
    maps = drawn.to(type);
    slopes = torch::randn(shape, torch::kDouble).to(type);
    const auto of_layer = [&] {
      return (torch::rand({shape[1]}, torch::kDouble) + 0.5)
          .to(type == torch::kBFloat16 ? torch::kFloat : type);
    };
    weight = of_layer();
    bias = of_layer();
    running_mean = of_layer();
    running_var = of_layer();
  }
};

using Normalize =
    std::function<at::Tensor(const at::Tensor&, const BatchNormTensors&, const RankStatisticsPtr&)>;

NormalizedMaps run(const LayerOnMaps& layer, const at::Tensor& maps, const at::Tensor& slopes,
                   const RankStatisticsPtr& ranks, const Normalize& normalize) {
  const auto leaf = [](const at::Tensor& one) {
    return one.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
  };
  const at::Tensor x = leaf(maps), weight = leaf(layer.weight), bias = leaf(layer.bias),
                   running_mean = layer.running_mean.clone(),
                   running_var = layer.running_var.clone();
  const at::Tensor y = normalize(x, {weight, bias, running_mean, running_var}, ranks);
  const auto found = torch::autograd::grad({y}, {x, weight, bias}, {slopes});
  return {y.detach(), found[0], found[1], found[2], running_mean, running_var};
}

at::Tensor by_torch(const at::Tensor& maps, const BatchNormTensors& of, const RankStatisticsPtr&) {
  return torch::batch_norm(maps, of.weight, of.bias, of.running_mean, of.running_var,
                           /*training=*/true, kBatchNormMomentum, kBatchNormEpsilon,
                           /*cudnn_enabled=*/false);
}
at::Tensor any_maps(const at::Tensor& maps, const BatchNormTensors& of,
                    const RankStatisticsPtr& ranks) {
  return batch_norm_over_ranks(maps, of.weight, of.bias, of.running_mean, of.running_var,
                               kBatchNormMomentum, kBatchNormEpsilon, ranks);
}
at::Tensor fast_maps(const at::Tensor& maps, const BatchNormTensors& of,
                     const RankStatisticsPtr& ranks) {
  return normalize_batch(maps, of, /*has_relu=*/false, ranks);
}

/// Compares three ranks, the last of which has a share that does not count, with torch's layer in
/// float64 on all shares that count. `tolerance` is relative to the largest number that is added.
void expect_as_torch(const LayerOnMaps& layer, const Normalize& normalize, double tolerance) {
  const std::int64_t rows = layer.maps.size(0);
  const auto exact = [&](at::ScalarType type) {
    LayerOnMaps other = layer;
    for (at::Tensor* one : {&other.maps, &other.slopes, &other.weight, &other.bias,
                            &other.running_mean, &other.running_var})
      *one = one->to(type);
    return other;
  };
  const LayerOnMaps wide = exact(torch::kDouble);
  const NormalizedMaps expected = run(wide, wide.maps, wide.slopes, {}, by_torch);
  std::vector<NormalizedMaps> found(3);
  run_as_ranks(3, [&](const runner::RankOfRun& own) {
    const bool counts = own.rank < 2;
    const auto share = [&](const at::Tensor& all) {
      return own.rank == 0 ? all.slice(0, 0, 1) : all.slice(0, 1);
    };
    const auto statistics = c10::make_intrusive<RankStatistics>(own, counts, rows);
    dynamic_cast<RankGroup&>(*own.peers).together([&] {
      found[static_cast<std::size_t>(own.rank)] =
          run(layer, share(layer.maps), counts ? share(layer.slopes) : share(layer.slopes) * 0,
              statistics, normalize);
    });
  });
  const auto near = [&](const at::Tensor& one, const at::Tensor& other, const char* what,
                        double terms = 0) {
    EXPECT_EQ(one.sizes(), other.sizes()) << what;
    const double scale = std::max(other.abs().max().item<double>(), terms);
    EXPECT_LT((one.to(torch::kDouble) - other).abs().max().item<double>(), tolerance * scale)
        << what << " " << layer.maps.sizes() << " " << layer.maps.scalar_type();
  };
  near(torch::cat({found[0].y, found[1].y}), expected.y, "the result");
  // The terms of dx may be much larger than dx itself, which is almost 0 if a channel has only two
  // values, so the tolerance is relative to the terms.
  const auto largest = [](const at::Tensor& one) { return one.abs().max().item<double>(); };
  const at::Tensor variances =
      wide.maps.transpose(0, 1).flatten(1).var(1, /*unbiased=*/false) + kBatchNormEpsilon;
  near(torch::cat({found[0].dx, found[1].dx}), expected.dx, "dx",
       largest(wide.slopes) * largest(wide.weight) * largest(variances.rsqrt()));
  near(found[0].d_weight + found[1].d_weight + found[2].d_weight, expected.d_weight, "d_weight");
  near(found[0].d_bias + found[1].d_bias + found[2].d_bias, expected.d_bias, "d_bias");
  EXPECT_TRUE(found[2].dx.eq(0).all().item<bool>()) << "the share does not count";
  for (const NormalizedMaps& one : found) {
    near(one.running_mean, expected.running_mean, "the running mean");
    near(one.running_var, expected.running_var, "the running variance");
    EXPECT_TRUE(one.running_var.equal(found[0].running_var)) << "the same bits";
    EXPECT_EQ(one.y.scalar_type(), layer.maps.scalar_type());
  }
}

/// Bounds the error of sums of `count` values of a type, and of results that are computed from
/// them.
double tolerance_of(const at::Tensor& maps) {
  const auto of_sum = static_cast<double>(maps.numel() / maps.size(1));
  return maps.scalar_type() == torch::kBFloat16 ? 2 * 0x1p-8
         : maps.scalar_type() == torch::kFloat
             ? 4 * of_sum * std::numeric_limits<float>::epsilon()
             : 4 * of_sum * std::numeric_limits<double>::epsilon();
}

TEST(RankBatchNorm, MatchesTorchOnTheBatchOfAllRanks) {
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kBFloat16}) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{7, 3},
                                                   {4, 5, 6},
                                                   {5, 3, 4, 2},
                                                   {2, 3, 1, 1},
                                                   {3, 2, 2, 3, 2}}) {
      const LayerOnMaps layer(shape, type);
      expect_as_torch(layer, any_maps, tolerance_of(layer.maps));
    }
  }
}

TEST(RankBatchNorm, KeepsTheLayoutOfMaps) {
  LayerOnMaps layer({5, 16, 4, 3}, torch::kDouble);
  layer.maps = layer.maps.contiguous(at::MemoryFormat::ChannelsLast);
  expect_as_torch(layer, any_maps, tolerance_of(layer.maps));
  const auto statistics =
      c10::make_intrusive<RankStatistics>(runner::RankOfRun{.size = 2}, true, 10);
  EXPECT_TRUE(any_maps(layer.maps, {layer.weight, layer.bias, {}, {}}, statistics)
                  .is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(RankBatchNorm, FastKernelGivesTheSameResult) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{5, 3, 4, 2}, {3, 200, 23, 9}, {4, 24, 1, 2}}) {
    LayerOnMaps layer(shape, torch::kFloat);
    layer.maps = layer.maps.contiguous(at::MemoryFormat::ChannelsLast);
    ASSERT_TRUE(can_normalize_batch(layer.maps.slice(0, 0, 1), layer.weight));
    expect_as_torch(layer, fast_maps, tolerance_of(layer.maps));
  }
}

TEST(RankBatchNorm, NeedsNoWeightsAndNoRunningStatistics) {
  const LayerOnMaps layer({6, 3, 2}, torch::kDouble);
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    const auto statistics = c10::make_intrusive<RankStatistics>(own, true, 6);
    dynamic_cast<RankGroup&>(*own.peers).together([&] {
      const at::Tensor y =
          any_maps(layer.maps.slice(0, own.rank * 3, own.rank * 3 + 3), {}, statistics);
      const at::Tensor expected =
          by_torch(layer.maps, {}, {}).slice(0, own.rank * 3, own.rank * 3 + 3);
      EXPECT_LT(distance(y, expected), tolerance_of(layer.maps));
    });
  });
}

TEST(RankBatchNorm, HasGradientsWithoutABias) {
  const LayerOnMaps layer({6, 3, 2}, torch::kDouble);
  for (const bool has_weight : {true, false}) {
    const auto gradients = [&](const at::Tensor& maps, const at::Tensor& slopes,
                               const Normalize& normalize, const RankStatisticsPtr& statistics) {
      const at::Tensor x = maps.clone().requires_grad_();
      const at::Tensor weight = layer.weight.detach().clone().requires_grad_();
      normalize(x, {has_weight ? weight : at::Tensor(), {}, {}, {}}, statistics).backward(slopes);
      return std::pair(x.grad(), has_weight ? weight.grad() : at::zeros({3}, at::kDouble));
    };
    const auto expected = gradients(layer.maps, layer.slopes, by_torch, {});
    std::vector<at::Tensor> dx(2), d_weight(2);
    run_as_ranks(2, [&](const runner::RankOfRun& own) {
      const auto share = [&](const at::Tensor& all) {
        return all.slice(0, own.rank * 3, own.rank * 3 + 3);
      };
      const auto statistics = c10::make_intrusive<RankStatistics>(own, true, 6);
      const auto rank = static_cast<std::size_t>(own.rank);
      dynamic_cast<RankGroup&>(*own.peers).together([&] {
        std::tie(dx[rank], d_weight[rank]) =
            gradients(share(layer.maps), share(layer.slopes), any_maps, statistics);
      });
    });
    EXPECT_LT(distance(torch::cat(dx), expected.first), 100 * tolerance_of(layer.maps));
    if (!has_weight) continue;
    EXPECT_LT(distance(d_weight[0] + d_weight[1], expected.second), 100 * tolerance_of(layer.maps));
  }
}

TEST(RankBatchNorm, ReplacesTorchWithinItsScope) {
  const LayerOnMaps layer({6, 3, 4}, torch::kDouble);
  const at::Tensor all = by_torch(layer.maps, {}, {});
  const at::Tensor instances =
      torch::instance_norm(layer.maps, {}, {}, {}, {}, true, 0.1, 1e-5, false);
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    const auto share = [&](const at::Tensor& rows) {
      return rows.slice(0, own.rank * 3, own.rank * 3 + 3);
    };
    const ScopedRankStatistics statistics(own, /*counts=*/true, /*units=*/6);
    dynamic_cast<RankGroup&>(*own.peers).together([&] {
      EXPECT_LT(distance(by_torch(share(layer.maps), {}, {}), share(all)),
                tolerance_of(layer.maps));
      EXPECT_TRUE(torch::instance_norm(share(layer.maps), {}, {}, {}, {}, true, 0.1, 1e-5, false)
                      .equal(share(instances)))
          << "each sample is normalized on its own";
    });
    const ScopedOwnStatistics alone;
    EXPECT_GT(distance(by_torch(share(layer.maps), {}, {}), share(all)), 1e-3);
  });
}

TEST(RankBatchNorm, IsRejectedUnlessDeclared) {
  const LayerOnMaps layer({6, 3, 4}, torch::kDouble);
  const ScopedRankStatistics statistics({.size = 2}, true, 6, /*is_declared=*/false);
  EXPECT_REFUSED(refusals_of([&] { by_torch(layer.maps, {}, {}); }), kOptionConflict,
                 "/device/count", "device.count: 2", "outside of a BatchNorm layer");
  const at::Tensor weight = layer.maps.slice(0, 0, 1);
  EXPECT_EQ(by_torch(weight, {}, {}).sizes(), weight.sizes()) << "as timm's StdConv2d does";
}

TEST(RankBatchNorm, SecondDerivativeIsRejected) {
  const LayerOnMaps layer({6, 3}, torch::kDouble);
  const auto statistics =
      c10::make_intrusive<RankStatistics>(runner::RankOfRun{.size = 2}, true, 12);
  const at::Tensor x = layer.maps.clone().requires_grad_();
  const at::Tensor y = any_maps(x, {layer.weight, layer.bias, {}, {}}, statistics).sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true),
               std::logic_error);
}

}  // namespace
}  // namespace stages
