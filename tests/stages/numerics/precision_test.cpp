#include "stages/numerics/precision_map.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

at::ScalarType type_of_product(Precision precision) {
  const ScopedPrecision scope(precision, torch::kCPU);
  return torch::ones({2, 2}).mm(torch::ones({2, 2})).scalar_type();
}

TEST(Precision, NamesMatchTheSchema) {
  EXPECT_EQ(name(Precision::kFp32), "fp32");
  EXPECT_EQ(name(Precision::kBf16), "bf16");
  EXPECT_EQ(name(Precision::kFp16), "fp16");
}

TEST(ScopedPrecision, ProductsUseThePrecision) {
  EXPECT_EQ(type_of_product(Precision::kFp32), torch::kFloat);
  EXPECT_EQ(type_of_product(Precision::kBf16), torch::kBFloat16);
  EXPECT_EQ(type_of_product(Precision::kFp16), torch::kHalf);
  EXPECT_EQ(type_of_product(Precision::kFp32), torch::kFloat);  // no autocast remains on
}

TEST(ScopedPrecision, OuterScopeIsRestored) {
  const ScopedPrecision outer(Precision::kBf16, torch::kCPU);
  for (const Precision inner : {Precision::kFp32, Precision::kFp16, Precision::kBf16}) {
    {
      const ScopedPrecision scope(inner, torch::kCPU);
      EXPECT_EQ(current_precision(torch::kCPU), inner);
      EXPECT_EQ(torch::ones({2, 2}).mm(torch::ones({2, 2})).scalar_type(), scalar_type(inner));
    }
    EXPECT_EQ(current_precision(torch::kCPU), Precision::kBf16);
    EXPECT_EQ(torch::ones({2, 2}).mm(torch::ones({2, 2})).scalar_type(), torch::kBFloat16);
  }
}

TEST(ScopedPrecision, ScopesOfDifferentPrecisionsCanBeNested) {
  const at::Tensor weight = torch::ones({2, 2}, torch::requires_grad());
  const auto type = [&] {
    return weight.mm(weight).scalar_type();
  };  // a weight, since only casts of weights are cached
  const ScopedPrecision outer(Precision::kBf16, torch::kCPU);
  EXPECT_EQ(type(), torch::kBFloat16);
  {
    const ScopedPrecision full(Precision::kFp32, torch::kCPU);
    EXPECT_EQ(type(), torch::kFloat);
    {
      const ScopedPrecision other(Precision::kFp16, torch::kCPU);
      EXPECT_EQ(type(), torch::kHalf);
    }
    EXPECT_EQ(type(), torch::kFloat);
  }
  EXPECT_EQ(type(), torch::kBFloat16);
}

TEST(ScopedPrecision, CastsOfAWeightEndWithTheOutermostScope) {
  at::Tensor weight = torch::ones({2, 2}, torch::requires_grad());
  const auto sum = [&] {
    const ScopedPrecision scope(Precision::kBf16, torch::kCPU);
    { const ScopedPrecision inner(Precision::kFp32, torch::kCPU); }
    return weight.mm(weight).sum().item<double>();
  };
  EXPECT_EQ(sum(), 8);
  weight.data().fill_(2);
  EXPECT_EQ(sum(), 32);
}

TEST(ScopedPrecision, FullPrecisionNeedsNoAutocastOnTheDevice) {
  const ScopedPrecision scope(Precision::kFp32, torch::kMeta);
  EXPECT_EQ(current_precision(torch::kMeta), Precision::kFp32);
}

TEST(ScopedPrecision, LossIsComputedInFloat32) {
  const ScopedPrecision scope(Precision::kBf16, torch::kCPU);
  const at::Tensor logits = torch::ones({4, 3}).mm(torch::ones({3, 5}));
  ASSERT_EQ(logits.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(torch::cross_entropy_loss(logits, torch::zeros(4, torch::kLong)).scalar_type(),
            torch::kFloat);
}

TEST(ScopedPrecision, GradientsHaveTheTypeOfTheWeights) {
  at::Tensor weight = torch::ones({3, 5}, torch::requires_grad());
  at::Tensor loss;
  {
    const ScopedPrecision scope(Precision::kFp16, torch::kCPU);
    loss = torch::ones({4, 3}).mm(weight).sum();
  }
  loss.backward();
  EXPECT_EQ(weight.grad().scalar_type(), torch::kFloat);
}

}  // namespace
}  // namespace stages
