// The cost of clipping, and when to clip.

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/classification.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/exactness.h"
#include "experiments/oom_claims/text.h"
#include "stages/train/step_execution.h"

namespace oom_claims {
namespace {

at::Tensor clipped(const at::Tensor& gradient, double limit) {
  return gradient / stages::clip_divisor(stages::global_norm({gradient}), limit);
}

}  // namespace

Finding clipping_saves_memory() {
  Training training{.network = resnet34(), .batch = 105};
  const std::int64_t free = peak(dry_run(training));
  training.clip = 1.0;
  const std::int64_t limited = peak(dry_run(training));
  const auto network = double_network(small_tower());
  const at::Tensor whole = gradient(ClassificationStep(), *network, random_images(16));
  const double limit = stages::global_norm({whole}).item<double>() / 2;
  return {
      .verdict = limited < free ? Verdict::kRight : Verdict::kWrong,
      .measured = "ResNet-34, batch 105: " + size(free) + ", with clipping " + size(limited) +
                  " (" + std::to_string(limited - free) +
                  " B more); clipping changes a gradient that is twice the limit by " +
                  one_digit(distance(clipped(whole, limit), whole)),
      .instead = "it limits the size of a step, which changes the training, and saves no memory"};
}

Finding order_of_clipping_does_not_matter() {
  const auto network = double_network(small_tower());
  const ClassificationStep step;
  const stages::Batch batch = random_images(16);
  const stages::GradScaler scaler({}, at::kCPU);
  stages::accumulate_gradient(step, {*network, {}, at::kCPU}, batch, step.weight(batch), {}, {7, 1},
                              {.scale = scaler.scale()});
  const at::Tensor scaled = taken_gradient(*network), whole = gradient(step, *network, batch);
  const at::Tensor unscaled_first = scaled.clone();
  scaler.unscale({unscaled_first});
  const at::Tensor clipped_first = clipped(scaled, 1.0);
  scaler.unscale({clipped_first});
  const at::Tensor right = clipped(whole, 1.0);
  const double late = distance(clipped(unscaled_first, 1.0), right),
               early = distance(clipped_first, right);
  return {.verdict = early < kEqual ? Verdict::kRight : Verdict::kWrong,
          .measured = "relative error of the clipped gradient: unscaling first: " +
                      one_digit(late) + ", clipping first: " + one_digit(early),
          .instead = "the limit applies to the gradient itself: unscale, then clip, then step"};
}

}  // namespace oom_claims
