// The savings and the cost of recomputing activations.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/classification.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/exactness.h"
#include "experiments/oom_claims/text.h"

namespace oom_claims {
namespace {

const stages::StepPlan kEachBlock = {.activation_checkpointing = {.blocks = true}};

/// Returns how far the gradient and BatchNorm's statistics are from the results of a step that
/// saves its activations.
double error_of_blocks() {
  const ClassificationStep step(/*mixes_samples=*/true);
  const stages::Batch batch = random_images(16);
  const auto kept = double_network(small_residual()), recomputed = double_network(small_residual());
  const at::Tensor whole = gradient(step, *kept, batch),
                   again = gradient(step, *recomputed, batch, kEachBlock);
  double error = distance(again, whole);
  const auto statistics = kept->buffers(), others = recomputed->buffers();
  for (std::size_t i = 0; i < statistics.size(); ++i)
    error = std::max(error, distance(others[i], statistics[i]));
  return error;
}

}  // namespace

Finding checkpointing_saves_two_fifths() {
  Finding finding;
  const std::vector<Training> trainings = {{.network = se_resnext50(), .batch = 8},
                                           {.network = resnet34(), .batch = 105},
                                           {.network = vit_b16(), .batch = 64}};
  std::size_t saving = 0, quick = 0;
  for (const Training& training : trainings) {
    Training blocks = training;
    blocks.plan = kEachBlock;
    const DryRun kept = dry_run(training), again = dry_run(blocks);
    const std::int64_t alive = owned_at_peak(kept, stages::Owner::kSavedActivation);
    const std::int64_t alive_again = owned_at_peak(again, stages::Owner::kSavedActivation);
    const std::int64_t percent = std::llround(100 * (again.flops / kept.flops - 1));
    saving += 10 * alive_again <= 6 * alive;
    quick += percent <= 20;
    finding.measured += (finding.measured.empty() ? "" : "; ") + training.network.name +
                        ", batch " + std::to_string(training.batch) + ": activations at the peak " +
                        change(alive, alive_again) + ", step " + size(peak(kept)) + " and " +
                        size(peak(again)) + " (" + change(peak(kept), peak(again)) +
                        "), matrix products +" + std::to_string(percent) + "%";
  }
  finding.measured += "; relative difference of the gradient and of BatchNorm's statistics: " +
                      one_digit(error_of_blocks());
  const std::size_t all = trainings.size();
  finding.verdict = saving == all && quick == all ? Verdict::kRight
                    : saving > 0                  ? Verdict::kInPart
                                                  : Verdict::kWrong;
  finding.instead =
      "recomputing block by block saves more, and adds about a third more matrix products; the "
      "savings depend on the network";
  return finding;
}

}  // namespace oom_claims
