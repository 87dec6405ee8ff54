// The curve of live bytes over a step, and its dependence on the image size.

#include <algorithm>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/text.h"

namespace oom_claims {

using stages::Owner;
using stages::StepPhase;

Finding forward_and_backward_add_up() {
  const DryRun whole = dry_run({.network = resnet34(), .batch = 105});
  const DryRun cut = dry_run({.network = resnet34(), .batch = 105, .plan = {.micro_batch = 27}});
  const std::int64_t forward = peak_in(whole, StepPhase::kForward),
                     backward = peak_in(whole, StepPhase::kBackward);
  const std::int64_t both = std::max(forward, backward);
  const auto sum_is_met = [&](double part) {
    return static_cast<double>(peak(whole)) > part * static_cast<double>(forward + backward);
  };
  return {
      .verdict = sum_is_met(0.95)     ? Verdict::kRight
                 : peak(whole) > both ? Verdict::kInPart
                                      : Verdict::kWrong,
      .measured = "ResNet-34, batch 105: peak of " + size(forward) + " in the forward pass, " +
                  size(backward) + " in the backward pass, " + size(peak(whole)) +
                  " in the whole step; split into 4: " + size(peak_in(cut, StepPhase::kForward)) +
                  ", " + size(peak_in(cut, StepPhase::kBackward)) + ", " + size(peak(cut)),
      .instead =
          "the backward pass frees what the forward pass saved: memory use is one curve with one "
          "peak, and splitting the batch lowers both sides of it"};
}

Finding smaller_images_save_a_quarter() {
  Finding finding;
  std::size_t fitting = 0, activations = 0, kinds = 0;
  const auto trained = [](std::int64_t side, bool is_tower) {
    return dry_run(
        {.network = is_tower ? vit_b16(side) : se_resnext50(), .batch = 8, .side = side});
  };
  for (const bool is_tower : {false, true}) {
    const DryRun large = trained(224, is_tower), small = trained(192, is_tower);
    const std::int64_t kept = owned(large, Owner::kSavedActivation),
                       kept_small = owned(small, Owner::kSavedActivation);
    const auto saves_a_quarter = [](std::int64_t before, std::int64_t now) {
      return 4 * now <= 3 * before;
    };
    ++kinds;
    fitting += saves_a_quarter(peak(large), peak(small));
    activations += saves_a_quarter(kept, kept_small);
    finding.measured += (is_tower ? "; ViT-B/16" : "batch 8: SE-ResNeXt-50") +
                        std::string(" keeps ") + size(kept) + " and " + size(kept_small) +
                        " of activations (" + change(kept, kept_small) + "), step " +
                        size(peak(large)) + " and " + size(peak(small)) + " (" +
                        change(peak(large), peak(small)) + ")";
  }
  finding.verdict = fitting == kinds  ? Verdict::kRight
                    : activations > 0 ? Verdict::kInPart
                                      : Verdict::kWrong;
  finding.instead =
      "activations are proportional to the area, which is 27% smaller; weights, gradients and "
      "optimizer state stay the same";
  return finding;
}

}  // namespace oom_claims
