#include "stages/numerics/recomputable_module.h"

#include <gmock/gmock.h>

#include "tests/support/listening_network.h"

namespace stages {
namespace {

using testing::ElementsAre;

using enum Precision;

at::Tensor run(ListeningNetwork& network, const PrecisionMap& map) {
  const ScopedPrecisionMap modules(network, map, at::kCPU);
  const ScopedPrecision precision(map.base, at::kCPU);
  return network.forward(torch::ones({5, 2}));
}

TEST(ScopedPrecisionMap, ModulesRunInTheirOwnPrecision) {
  ListeningNetwork network;
  run(network, {kBf16, {{"head", kFp32}}});
  EXPECT_THAT(network.formats(), ElementsAre(at::kBFloat16, at::kBFloat16, at::kFloat));
  run(network, {kFp32, {{"trunk", kFp16}}});
  EXPECT_THAT(network.formats(), ElementsAre(at::kHalf, at::kHalf, at::kFloat));
  run(network, {kFp32, {{"", kBf16}, {"trunk.second", kFp32}}});
  EXPECT_THAT(network.formats(), ElementsAre(at::kBFloat16, at::kFloat, at::kBFloat16));
}

TEST(ScopedPrecisionMap, InputsOfAnFp32ModuleAreCast) {
  ListeningNetwork network;
  run(network, {kBf16, {{"trunk.second", kFp32}}});
  EXPECT_THAT(network.second->in, ElementsAre(at::kFloat));
  EXPECT_THAT(network.head->in, ElementsAre(at::kFloat));  // autocast casts it within the product
  EXPECT_THAT(network.head->out, ElementsAre(at::kBFloat16));
}

TEST(ScopedPrecisionMap, Fp16AndBf16CanBeMixed) {
  ListeningNetwork network;
  run(network, {kFp16, {{"trunk.second", kBf16}}});
  EXPECT_THAT(network.formats(), ElementsAre(at::kHalf, at::kBFloat16, at::kHalf));
  EXPECT_THAT(network.second->in, ElementsAre(at::kBFloat16));
}

TEST(ScopedPrecisionMap, WeightUsedInTwoPrecisionsIsCastTwice) {
  ListeningNetwork network;
  const at::Tensor x = torch::ones({5, 4});
  const ScopedPrecisionMap modules(network, {kBf16, {{"trunk.second", kFp16}}}, at::kCPU);
  const ScopedPrecision precision(kBf16, at::kCPU);
  const auto product = [&] { return torch::linear(x, network.second->weight).scalar_type(); };
  EXPECT_EQ(product(), at::kBFloat16);
  EXPECT_EQ(network.second->forward(x).scalar_type(), at::kHalf);
  EXPECT_EQ(product(), at::kBFloat16);
}

TEST(ScopedPrecisionMap, GradientsHaveTheTypeOfTheWeights) {
  ListeningNetwork network;
  const at::Tensor sum =
      run(network, {kBf16, {{"trunk.second", kFp32}, {"head", kFp16}}}).to(at::kFloat).sum();
  for (const at::Tensor& gradient : torch::autograd::grad(
           {sum}, {network.first->weight, network.second->weight, network.head->weight})) {
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_GT(gradient.abs().sum().item<double>(), 0);
  }
}

TEST(ScopedPrecisionMap, NothingRemainsAfterward) {
  ListeningNetwork network;
  const at::Tensor before = run(network, kFp32);
  run(network, {kFp16, {{"", kBf16}, {"head", kFp32}}});
  EXPECT_TRUE(run(network, kFp32).equal(before));
  EXPECT_EQ(current_precision(at::kCPU), kFp32);
}

TEST(ScopedPrecisionMap, OuterScopeIsRestoredAfterAnException) {
  ListeningNetwork network;
  const ScopedPrecisionMap outer(network, {kFp32, {{"head", kBf16}}}, at::kCPU);
  try {
    const ScopedPrecisionMap inner(network, {kFp32, {{"trunk", kBf16}}}, at::kCPU);
    network.forward(torch::ones({1, 2}));
    EXPECT_THAT(network.formats(), ElementsAre(at::kBFloat16, at::kBFloat16, at::kFloat));
    throw std::runtime_error("leave");
  } catch (const std::runtime_error&) {
  }
  network.forward(torch::ones({1, 2}));
  EXPECT_THAT(network.formats(), ElementsAre(at::kFloat, at::kFloat, at::kBFloat16));
}

TEST(ScopedPrecisionMap, Float64AndIntegersAreLeftAlone) {
  ListeningNetwork network;
  const ScopedPrecisionMap modules(network, {kBf16, {{"head", kFp32}}}, at::kCPU);
  const OwnPrecision own(*network.head);
  EXPECT_EQ(own(torch::ones(2, at::kDouble)).scalar_type(), at::kDouble);
  EXPECT_EQ(own(torch::ones(2, at::kLong)).scalar_type(), at::kLong);
  EXPECT_EQ(own(torch::ones(2, at::kHalf)).scalar_type(), at::kFloat);
}

TEST(HasOwnPrecision, IncludesParentsThatContainNothingElse) {
  const ListeningNetwork network;
  EXPECT_TRUE(has_own_precision(network));
  EXPECT_TRUE(has_own_precision(*network.head));
  EXPECT_TRUE(has_own_precision(*network.trunk));
  EXPECT_FALSE(has_own_precision(*network.plain));
  EXPECT_FALSE(has_own_precision(*network.ignored));
  const torch::nn::Sequential mixed(ListeningLinear(2, 2), torch::nn::Linear(2, 2));
  EXPECT_FALSE(has_own_precision(*mixed));
}

}  // namespace
}  // namespace stages
