// The savings of half precision, and its effect on the gradient.

#include <vector>

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/classification.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/exactness.h"
#include "experiments/oom_claims/text.h"

namespace oom_claims {
namespace {

/// Returns the percentage of values that become 0 in a narrower type.
std::string vanishing(const at::Tensor& numbers, at::ScalarType type) {
  const std::int64_t before = numbers.count_nonzero().item<std::int64_t>();
  const std::int64_t after = numbers.to(type).count_nonzero().item<std::int64_t>();
  return std::to_string(100 * (before - after) / before) + "%";
}

}  // namespace

Finding half_precision_halves_memory() {
  Finding finding{.verdict = Verdict::kRight};
  bool is_lower = false;
  std::vector<Training> trainings = {{.network = resnet34(), .batch = 105},
                                     {.network = se_resnext50(), .batch = 8},
                                     {.network = vit_b16(), .batch = 64}};
  for (Training& training : trainings) {
    const DryRun full = dry_run(training);
    training.plan.numerics.precision = stages::Precision::kFp16;
    const DryRun half = dry_run(training);
    const std::int64_t kept = owned(full, stages::Owner::kSavedActivation);
    const std::int64_t kept_half = owned(half, stages::Owner::kSavedActivation);
    is_lower = is_lower || peak(half) < peak(full);
    if (100 * peak(half) > 52 * peak(full))
      finding.verdict = is_lower ? Verdict::kInPart : Verdict::kWrong;
    finding.measured += (finding.measured.empty() ? "" : "; ") + training.network.name +
                        ", batch " + std::to_string(training.batch) + ": " + size(peak(full)) +
                        " in float32 and " + size(peak(half)) + " with autocast (" +
                        change(peak(full), peak(half)) + "), activations " +
                        change(kept, kept_half);
  }
  finding.instead =
      "it halves most activations; weights, their gradients and the optimizer state stay in "
      "float32, and half-precision copies of the weights are added";
  return finding;
}

Finding half_precision_changes_nothing() {
  const ClassificationStep step;
  const auto network = double_network(small_tower());
  const stages::Batch doubles = random_images(64);
  const at::Tensor exact = gradient(step, *network, doubles);
  network->to(torch::kFloat);
  const stages::Batch floats = doubles.with("image", doubles["image"].to(torch::kFloat));
  const at::Tensor full = gradient(step, *network, floats).to(torch::kDouble);
  const at::Tensor half =
      gradient(step, *network, floats, {.numerics = {.precision = stages::Precision::kBf16}})
          .to(torch::kDouble);
  const double by_float = distance(full, exact), by_half = distance(half, exact);
  // A loss that is a mean over a large batch, or over the pixels of an image, can have gradients
  // this small.
  const at::Tensor small = exact * 1e-5;
  return {.verdict = by_half < 10 * by_float ? Verdict::kRight : Verdict::kWrong,
          .measured =
              std::string("relative error of the gradient: float32 ") +
              (by_float < 1e-5 ? "below 1e-5" : magnitude(by_float)) + ", bf16 autocast about " +
              magnitude(by_half) + "; if the gradient is a hundred thousand times smaller, " +
              vanishing(small, at::kHalf) + " of the values are 0 in fp16 without a scale, " +
              vanishing(small * 65536, at::kHalf) + " with a scale of 65536, " +
              vanishing(small, at::kBFloat16) + " in bf16",
          .instead =
              "it is different arithmetic, which you should choose explicitly; the loss must be "
              "scaled in fp16, but not in bf16"};
}

}  // namespace oom_claims
