// The effect of gradient accumulation on memory and on the gradient.

#include <algorithm>

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/classification.h"
#include "experiments/oom_claims/contrastive.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/exactness.h"
#include "experiments/oom_claims/text.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/step_execution.h"

namespace oom_claims {
namespace {

using stages::Owner;

/// Returns the weights after `batches` batches of 8, with an optimizer step after every
/// `step_every` batches.
at::Tensor trained(std::int64_t batches, std::int64_t step_every) {
  const auto network = double_network(small_tower());
  const ClassificationStep step;
  stages::StepExecution execution(step, *network, stages::divide_parameters(*network, kAdamW, {}),
                                  {}, {}, at::kCPU);
  const stages::Batch all = random_images(8 * batches);
  for (std::int64_t batch = 0; batch < batches; batch += step_every) {
    const auto computed =
        execution.compute(all.part(8 * batch, 8 * (batch + step_every)), {7, batch});
    execution.commit(computed);
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& weight : network->parameters())
    weights.push_back(weight.detach().flatten());
  return torch::cat(weights);
}

}  // namespace

Finding late_step_saves_activations() {
  Finding finding{.verdict = Verdict::kRight};
  bool is_lower = false;
  for (const auto& [network, batch] : {std::pair{resnet34(), 105}, std::pair{vit_b16(), 64}}) {
    const std::int64_t whole = peak(dry_run({.network = network, .batch = batch}));
    const std::int64_t late = peak(dry_run({.network = network, .batch = batch, .late_step = 4}));
    const std::int64_t split = peak(
        dry_run({.network = network, .batch = batch, .plan = {.micro_batch = (batch + 3) / 4}}));
    if (late < whole) is_lower = true;
    if (4 * late > whole) finding.verdict = is_lower ? Verdict::kInPart : Verdict::kWrong;
    finding.measured += (finding.measured.empty() ? "" : "; ") + network.name + ", batch " +
                        std::to_string(batch) + ": " + size(whole) +
                        ", stepping every 4th batch: " + size(late) + " (" + change(whole, late) +
                        "), split into 4: " + size(split) + " (" + change(whole, split) + ")";
  }
  finding.instead =
      "stepping only every 4th batch still computes each whole batch, and also keeps the "
      "gradients; what saves memory is splitting each batch into micro-batches";
  return finding;
}

Finding late_step_saves_optimizer_state() {
  const auto state = [](std::int64_t late_step) {
    return owned(dry_run({.network = resnet34(), .late_step = late_step}), Owner::kOptimizerState);
  };
  const std::int64_t every = state(1), late = state(4);
  return {.verdict = late < every ? Verdict::kRight : Verdict::kWrong,
          .measured = "AdamW's state of ResNet-34: " + size(every) + " if it steps every batch, " +
                      size(late) + " if it steps every 4th batch",
          .instead = "the size of the state depends only on the parameters"};
}

Finding accumulation_is_equivalent() {
  const ClassificationStep step;
  const auto tower = double_network(small_tower()), residual = double_network(small_residual());
  const stages::Batch batch = random_images(64);
  const at::Tensor whole = gradient(step, *tower, batch), mixed = gradient(step, *residual, batch);
  const double even = distance(summed_means(step, *tower, batch, 16), whole);
  const double ragged = distance(summed_means(step, *tower, batch, 22), whole);
  const double weighted = distance(gradient(step, *tower, batch, {.micro_batch = 22}), whole);
  const double batch_norm = distance(summed_means(step, *residual, batch, 16), mixed);
  const double late = distance(trained(8, 4), trained(8, 1));
  const double worst = std::max({ragged, batch_norm, late});
  const Verdict verdict = worst < kEqual  ? Verdict::kRight
                          : even < kEqual ? Verdict::kInPart
                                          : Verdict::kWrong;
  return {
      .verdict = verdict,
      .measured = "relative error of the gradient in float64: 4 equal parts " + one_digit(even) +
                  ", 22 + 22 + 20 with equal weights " + one_digit(ragged) +
                  ", weighted by their sizes " + one_digit(weighted) +
                  ", 4 equal parts with BatchNorm " + one_digit(batch_norm) +
                  "; relative error of the weights after 8 batches, stepping every 4th batch: " +
                  one_digit(late),
      .instead =
          "equal if the parts of one batch are weighted by their sizes, and no layer or loss "
          "combines several samples; stepping only every Nth batch changes the training, as if "
          "batches were N times as large"};
}

Finding fewer_episodes_help() {
  std::vector<std::int64_t> peaks;
  for (const std::int64_t episodes : {2, 4, 8}) {
    peaks.push_back(peak(dry_run({.network = resnet34(), .batch = 105}, episodes), 0));
  }
  return {.verdict = peaks.front() < peaks.back() ? Verdict::kRight : Verdict::kWrong,
          .measured = "ResNet-34, 105 images per episode: " + size(peaks[0]) +
                      " with 2 episodes, " + size(peaks[1]) + " with 4, " + size(peaks[2]) +
                      " with 8",
          .instead = "episodes run one after another, and each frees its memory"};
}

Finding small_contrastive_batches_are_equal() {
  const ContrastiveStep step;
  const auto towers = two_towers();
  const stages::Batch batch = random_pairs(128);
  const at::Tensor whole = gradient(step, *towers, batch);
  const double naive = distance(summed_means(step, *towers, batch, 16), whole);
  const double cached =
      distance(gradient(step, *towers, batch, {.micro_batch = 16, .two_pass = true}), whole);
  return {.verdict = naive < kEqual ? Verdict::kRight : Verdict::kWrong,
          .measured = "relative error of the gradient in float64: 8 batches of 16 " +
                      one_digit(naive) + ", two passes over the same parts " + one_digit(cached),
          .instead =
              "each of the 16 is compared with 15 others instead of 127, so the loss is different; "
              "two passes split the batch without changing the loss"};
}

Finding six_times_three_replaces_sixteen() {
  const ClassificationStep step;
  const auto network = double_network(small_tower());
  const stages::Batch batch = random_images(18);
  const at::Tensor whole = gradient(step, *network, batch.part(0, 16));
  const double eighteen = distance(summed_means(step, *network, batch, 6), whole);
  const double cut =
      distance(gradient(step, *network, batch.part(0, 16), {.micro_batch = 6}), whole);
  return {
      .verdict = eighteen < kEqual ? Verdict::kRight : Verdict::kWrong,
      .measured =
          "relative error in float64, compared with the gradient of 16 samples: 3 batches of 6: " +
          one_digit(eighteen) + ", 16 split into 6 + 6 + 4: " + one_digit(cut),
      .instead = "a step on 18 samples instead of 16 changes the training"};
}

}  // namespace oom_claims
