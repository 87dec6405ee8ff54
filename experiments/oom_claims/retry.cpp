#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/classification.h"
#include "experiments/oom_claims/exactness.h"
#include "experiments/oom_claims/text.h"
#include "stages/machine/counting_allocator.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_snapshot.h"

namespace oom_claims {
namespace {

constexpr std::int64_t kSteps = 6, kBatch = 8, kFailing = 3;
constexpr stages::SgdOptions kSgd{.learning_rate = 0.05, .momentum = 0.9};

/// A training run of a small network with SGD.
class SmallTraining {
 public:
  SmallTraining(const NetworkKind& kind, stages::StepPlan plan)
      : network_(double_network(kind)),
        execution_(step_, *network_, stages::divide_parameters(*network_, kSgd, {}),
                   std::move(plan), {}, at::kCPU) {}

  /// Trains on the samples from `sample` on, in batches. In step `failing`, every allocation fails
  /// once, and the batch is retried.
  void run(std::int64_t sample, std::int64_t batch, std::int64_t failing = -1) {
    const stages::Batch all = random_images(kSteps * kBatch);
    for (; sample < all.units(); sample += batch, ++number_) {
      const stages::Batch part = all.part(sample, sample + batch);
      commit(number_ == failing ? computed_at_last(part) : execution_.compute(part, {7, number_}));
    }
  }
  at::Tensor weights() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& weight : network_->parameters())
      all.push_back(weight.detach().flatten());
    for (const at::Tensor& buffer : network_->buffers()) all.push_back(buffer.flatten());
    return torch::cat(all);
  }
  std::int64_t failures = 0;

 private:
  void commit(const stages::StepExecution::Computed& computed) { execution_.commit(computed); }
  stages::StepExecution::Computed computed_at_last(const stages::Batch& batch) {
    const stages::StepSnapshot before(*network_, at::kCPU);
    stages::CountingAllocator counter;
    for (;; ++failures) {
      counter.refuse(failures + 1);
      try {
        auto computed = execution_.compute(batch, {7, number_});
        counter.refuse(0);
        return computed;
      } catch (const c10::OutOfMemoryError&) {
        before.restore();
      }
    }
  }

  const ClassificationStep step_;
  std::shared_ptr<ImageNetwork> network_;
  stages::StepExecution execution_;
  std::int64_t number_ = 0;
};

}  // namespace

Finding retrying_with_half_a_batch_is_safe() {
  Finding finding{.verdict = Verdict::kRight};
  // A failure could affect dropout's random numbers and BatchNorm's statistics.
  for (const NetworkKind& kind : {small_tower(0.2), small_residual()}) {
    SmallTraining whole(kind, {}), replayed(kind, {}), again(kind, {});
    whole.run(0, kBatch);
    replayed.run(0, kBatch, kFailing);
    again.run(0, kBatch / 2);
    const double halved = distance(again.weights(), whole.weights());
    if (halved > kEqual) finding.verdict = Verdict::kWrong;
    finding.measured +=
        (finding.measured.empty() ? "relative difference of the weights of " : "; of ") +
        kind.name + " after 6 batches of 8, if restarted with batches of 4: " + one_digit(halved) +
        ", with " + std::to_string(replayed.failures) + " failures in one step, each retried: " +
        one_digit(distance(replayed.weights(), whole.weights()));
  }
  SmallTraining whole(small_tower(0.2), {}), cut(small_tower(0.2), {.micro_batch = kBatch / 2});
  whole.run(0, kBatch);
  cut.run(0, kBatch);
  finding.measured +=
      "; batches of 8 split in 2: " + one_digit(distance(cut.weights(), whole.weights()));
  finding.instead =
      "half the batch size changes the training, which also starts over; the failed batch "
      "itself can be retried, split in two if necessary";
  return finding;
}

}  // namespace oom_claims
