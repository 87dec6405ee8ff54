#include "stages/few_shot/prototypes.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"

namespace stages {
namespace {

// Two classes with two supports each, in a plane.
at::Tensor two_supports() {
  return torch::tensor({{{3.0, 0.0}, {1.0, 0.0}}, {{0.0, 1.0}, {0.0, 5.0}}},
                       here().dtype(torch::kFloat));
}
at::Tensor two_queries() {
  return torch::tensor({{2.0, 2.5}, {4.0, 0.0}}, here().dtype(torch::kFloat));
}

TEST(PrototypeLogits, EuclideanIsTheNegativeSquaredDistanceToTheMean) {
  const at::Tensor logits =
      prototype_logits(two_supports(), two_queries(), {.distance = PrototypeDistance::kEuclidean});
  // The means are (2, 0) and (0, 3).
  EXPECT_TRUE(
      logits.equal(torch::tensor({{-6.25, -4.25}, {-4.0, -25.0}}, here().dtype(torch::kDouble))));
}

TEST(PrototypeLogits, CosineIgnoresLengths) {
  const PrototypeRule rule{.scale = 2};
  const at::Tensor logits = prototype_logits(two_supports(), two_queries(), rule);
  const double length = std::sqrt(2.0 * 2.0 + 2.5 * 2.5);
  EXPECT_TRUE(logits.allclose(
      torch::tensor({{4 / length, 5 / length}, {2.0, 0.0}}, here().dtype(torch::kDouble))));
  EXPECT_TRUE(prototype_logits(two_supports() * 7, two_queries() * 0.5, rule).allclose(logits));
}

TEST(PrototypeLogits, CosineWeighsSupportVectorsOfAnyLengthEqually) {
  const at::Tensor supports =
      torch::tensor({{{100.0, 0.0}, {0.0, 1.0}}}, here().dtype(torch::kFloat));
  const at::Tensor logits =
      prototype_logits(supports, torch::tensor({{1.0, 0.0}, {0.0, 1.0}}, here()), {.scale = 1});
  EXPECT_TRUE(logits[0].equal(logits[1]));
}

TEST(PrototypeLogits, CenterIsSubtractedFirst) {
  const at::Tensor center = torch::tensor({10.0, -4.0}, here().dtype(torch::kDouble));
  for (const PrototypeDistance distance :
       {PrototypeDistance::kCosine, PrototypeDistance::kEuclidean}) {
    const at::Tensor plain =
                         prototype_logits(two_supports(), two_queries(), {.distance = distance}),
                     moved = prototype_logits(two_supports() + center, two_queries() + center,
                                              {.distance = distance, .center = center});
    EXPECT_TRUE(moved.allclose(plain));
  }
}

TEST(PrototypeLogits, FeatureMapsAreFlattenedAndZeroVectorsHaveNoDirection) {
  const at::Tensor maps = two_supports().view({2, 2, 1, 2}),
                   asked = torch::zeros({1, 1, 2}, here());
  EXPECT_TRUE(
      prototype_logits(maps, asked, {}).equal(torch::zeros({1, 2}, here().dtype(torch::kDouble))));
}

}  // namespace
}  // namespace stages
