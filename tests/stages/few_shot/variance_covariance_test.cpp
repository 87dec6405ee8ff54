#include "stages/few_shot/train_episodic.h"

#include <cmath>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/numerics/precision_map.h"
#include "tests/support/distance.h"
#include "tests/support/golden_episode.h"
#include "tests/support/on_test_device.h"

namespace stages {
namespace {

constexpr CovarianceForm kForms[] = {CovarianceForm::kDirect, CovarianceForm::kGram};

at::Tensor supports(std::int64_t ways, std::int64_t shots, std::int64_t width,
                    at::ScalarType type = at::kDouble) {
  return 0.4 * torch::randn({ways, shots, width}, at::detail::createCPUGenerator(8), type)
                   .to(here().device());
}

TEST(SupportVariance, MatchesThePublishedValue) {
  EXPECT_NEAR(support_variance_loss(golden_supports(), 1, Deviation::kUnbiased).item<double>(),
              0.456766, 1e-6);
  EXPECT_NEAR(support_variance_loss(golden_supports(), 1, Deviation::kBiased).item<double>(),
              0.603567, 1e-6);
}

TEST(SupportVariance, CountsOnlyDeviationsBelowTheTarget) {
  // The biased standard deviations of two shots are half of their distances: 0.5 and 3.
  const at::Tensor features =
      torch::tensor({{{0.0, -1.0}, {1.0, 5.0}}}, here().dtype(torch::kDouble));
  EXPECT_DOUBLE_EQ(support_variance_loss(features, 1, Deviation::kBiased).item<double>(), 0.5 / 2);
  EXPECT_DOUBLE_EQ(support_variance_loss(features, 4, Deviation::kBiased).item<double>(),
                   (3.5 + 1) / 2);
}

TEST(SupportVariance, PushesTheImagesOfAClassApart) {
  const at::Tensor features = supports(3, 4, 6).requires_grad_();
  support_variance_loss(features, 1, Deviation::kUnbiased).backward();
  const at::Tensor after = features.detach() - 5 * features.grad();
  EXPECT_GT(after.std(1, /*unbiased=*/true).mean().item<double>(),
            features.detach().std(1, /*unbiased=*/true).mean().item<double>());
}

TEST(SupportVariance, UnbiasedNeedsTwoShotsAndBiasedHasNoGradientForOne) {
  EXPECT_THROW(support_variance_loss(supports(3, 1, 4), 1, Deviation::kUnbiased),
               std::invalid_argument);
  const at::Tensor features = supports(3, 1, 4).requires_grad_();
  const at::Tensor loss = support_variance_loss(features, 0.75, Deviation::kBiased);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0.75);
  EXPECT_TRUE(features.grad().eq(0).all().item<bool>());
}

TEST(SupportVariance, EqualImagesDoNotCauseNaN) {
  const at::Tensor features = torch::ones({2, 3, 4}, here().dtype(torch::kDouble)).requires_grad_();
  support_variance_loss(features, 1, Deviation::kUnbiased).backward();
  EXPECT_TRUE(features.grad().eq(0).all().item<bool>());
}

TEST(SupportCovariance, MatchesThePublishedValueInBothForms) {
  for (const CovarianceForm form : kForms)
    EXPECT_NEAR(support_covariance_loss(golden_supports(), form).item<double>(), 0.110225, 1e-6);
}

std::pair<at::Tensor, at::Tensor> covariance_and_gradient(const at::Tensor& features,
                                                          CovarianceForm form) {
  const at::Tensor z = features.detach().clone().requires_grad_();
  const at::Tensor loss = support_covariance_loss(z, form);
  loss.backward();
  return {loss.detach(), z.grad()};
}

TEST(SupportCovariance, FormsAreEqualInExactArithmetic) {
  for (const std::int64_t width : {4, 64, 256}) {
    const auto [direct, direct_gradient] =
        covariance_and_gradient(supports(5, 5, width), CovarianceForm::kDirect);
    const auto [gram, gram_gradient] =
        covariance_and_gradient(supports(5, 5, width), CovarianceForm::kGram);
    EXPECT_LT(distance(gram, direct), 1e-12) << width;
    EXPECT_LT(distance(gram_gradient, direct_gradient), 1e-12) << width;
  }
}

TEST(SupportCovariance, GramFormHasNoFeaturesByFeaturesTensor) {
  // For the supports of a ResNet's episode, the covariance matrix alone would need 2.35 GiB.
  const at::Tensor features = supports(5, 5, 25088, at::kFloat);
  const CountingAllocator counter;
  covariance_and_gradient(features, CovarianceForm::kGram);
  EXPECT_LT(counter.peak_bytes(), std::int64_t{50} << 20);
}

TEST(SupportTerms, AreComputedInFloat32UnderAutocast) {
  const at::Tensor features = supports(3, 4, 6, at::kFloat);
  const auto terms = [](const at::Tensor& z) {
    return torch::stack({support_variance_loss(z, 1, Deviation::kUnbiased),
                         support_covariance_loss(z, CovarianceForm::kDirect),
                         support_covariance_loss(z, CovarianceForm::kGram)});
  };
  const at::Tensor plain = terms(features),
                   of_halves = terms(features.to(at::kBFloat16).to(at::kFloat));
  const ScopedPrecision halves(Precision::kBf16, at::kCPU);
  EXPECT_TRUE(terms(features).equal(plain));
  EXPECT_TRUE(terms(features.to(at::kBFloat16)).equal(of_halves));
}

}  // namespace
}  // namespace stages
