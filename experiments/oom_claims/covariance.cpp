// The cause of an allocation of 2.35 GiB.

#include <algorithm>

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/exactness.h"
#include "experiments/oom_claims/text.h"
#include "stages/train/classification_loss.h"

namespace oom_claims {
namespace {

using stages::CovarianceForm;

at::Tensor gradient_of(CovarianceForm form, const at::Tensor& x) {
  const at::Tensor leaf = x.detach().requires_grad_(true);
  stages::covariance_loss(leaf, form).backward();
  return leaf.grad();
}

/// Returns the peak of live bytes for 25 embeddings of 512 · 7 · 7 features.
std::int64_t peak_of(CovarianceForm form) {
  return peak(recorded([&](stages::MemoryTrace&) {
    gradient_of(form, torch::empty({25, 25088}, at::TensorOptions(at::kMeta)));
  }));
}

}  // namespace

Finding batch_of_images_is_the_cause() {
  constexpr std::int64_t kMatrix = std::int64_t{25088} * 25088 * 4, kSegment = 2 << 20;
  const std::int64_t asked = (kMatrix + kSegment - 1) / kSegment * kSegment;
  const DryRun pooled = dry_run({.network = resnet34(), .batch = 105});
  const DryRun unpooled = dry_run({.network = resnet34_without_pooling(), .batch = 105});
  const std::int64_t activation = std::max(largest(pooled, stages::Owner::kSavedActivation),
                                           largest(unpooled, stages::Owner::kSavedActivation));
  const at::Tensor x = torch::randn({25, 700}, at::detail::createCPUGenerator(3), torch::kDouble);
  const double error =
      distance(gradient_of(CovarianceForm::kGram, x), gradient_of(CovarianceForm::kDirect, x));
  const bool is_matrix = size(asked) == "2.35 GiB" && activation < asked / 2;
  return {.verdict = is_matrix ? Verdict::kWrong : Verdict::kRight,
          .measured = "a covariance of 25088 features is a block of " + size(asked) +
                      "; the largest activation of ResNet-34 for 105 images is " +
                      size(activation) + ", and a step needs " + size(peak(pooled)) + " (" +
                      size(peak(unpooled)) +
                      " without pooling); a step with the covariance alone needs " +
                      size(peak_of(CovarianceForm::kDirect)) + ", with products of rows " +
                      size(peak_of(CovarianceForm::kGram)) +
                      "; relative difference of the gradients: " + one_digit(error),
          .instead =
              "the cause was one matrix in a loss term, and its size does not depend on the number "
              "of images; computed from products of rows, the same term needs almost no memory"};
}

}  // namespace oom_claims
