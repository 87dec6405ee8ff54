// When memory is freed.

#include <functional>
#include <vector>

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/classification.h"
#include "experiments/oom_claims/exactness.h"
#include "experiments/oom_claims/replay.h"
#include "experiments/oom_claims/text.h"
#include "stages/machine/counting_allocator.h"
#include "stages/random/dropout.h"

namespace oom_claims {
namespace {

std::int64_t live(const stages::MemoryTrace& trace) {
  std::int64_t bytes = 0;
  const auto storages = trace.storages();
  for (const stages::TraceEvent& event : trace.events())
    bytes += (event.is_birth ? 1 : -1) * storages[event.storage].bytes;
  return bytes;
}

/// Returns the growth of live bytes per batch if each loss is passed to `add`. If `trains` is set,
/// also runs a backward pass from each loss.
std::int64_t growth(bool trains, const std::function<void(const at::Tensor& loss)>& add) {
  const auto network = double_network(small_tower());
  const ClassificationStep step;
  const stages::Batch batch = random_images(16);
  const stages::CountingAllocator counter;
  std::vector<std::int64_t> after;
  for (std::int64_t number = 0; number < 8; ++number) {
    const stages::ScopedDropout dropout(*network, {7, number},
                                        {{"", std::vector<std::int64_t>(16, 0)}});
    at::Tensor loss = step.loss(step.encode(*network, batch), batch).at("cross_entropy");
    if (trains) loss.backward();
    add(loss);
    loss.reset();
    after.push_back(counter.live_bytes());
  }
  return (after[7] - after[3]) / 4;
}

}  // namespace

Finding deleting_frees_at_once() {
  std::int64_t kept_by_graph = 0, freed_with_it = 0;
  const DryRun run = recorded([&](stages::MemoryTrace& trace) {
    const at::Tensor weight = torch::empty({1024, 1024}, at::kMeta).requires_grad_(true);
    const at::Tensor x = torch::empty({8192, 1024}, at::kMeta);
    at::Tensor activation = x.matmul(weight).sigmoid();
    at::Tensor loss = activation.sum();
    const std::int64_t before = live(trace);
    activation.reset();
    kept_by_graph = before - live(trace);
    loss.reset();
    freed_with_it = before - live(trace);
  });
  stages::AllocatorReplay allocator({});
  std::int64_t reserved = 0;
  for (const stages::TraceEvent& event : run.events) {
    if (event.is_birth) allocator.allocate(event.storage, run.storages[event.storage].bytes);
    else allocator.free(event.storage);
    reserved = std::max(reserved, allocator.reserved());
  }
  const bool frees = kept_by_graph > 0, frees_device = allocator.reserved() < reserved;
  return {.verdict = frees && frees_device        ? Verdict::kRight
                     : frees || freed_with_it > 0 ? Verdict::kInPart
                                                  : Verdict::kWrong,
          .measured = "deleting an activation of 32 MiB frees " + size(kept_by_graph) +
                      " while the graph of the loss exists, and " + size(freed_with_it) +
                      " together with the graph; the process returns " +
                      size(reserved - allocator.reserved()) + " of " + size(reserved) +
                      " to the device",
          .instead =
              "a tensor's memory is freed together with its last owner, usually the graph, and "
              "goes to the allocator's cache; in C++ leaving a scope is enough"};
}

Finding detaching_ends_a_leak() {
  double sum = 0;
  at::Tensor total = torch::zeros({}, torch::kDouble), seen = total.clone();
  const std::int64_t item =
      growth(true, [&](const at::Tensor& loss) { sum += loss.item<double>(); });
  const std::int64_t detached =
      growth(true, [&](const at::Tensor& loss) { sum += loss.detach().item<double>(); });
  const std::int64_t tensor = growth(true, [&](const at::Tensor& loss) { total = total + loss; });
  const std::int64_t validation =
      growth(false, [&](const at::Tensor& loss) { seen = seen + loss; });
  return {.verdict = item > 0 && detached == 0 ? Verdict::kRight : Verdict::kWrong,
          .measured =
              "growth per batch: loss.item() " + size(item) + ", loss.detach().item() " +
              size(detached) + ", summing the losses as tensors " + size(tensor) +
              ", the same without a backward pass, as in a validation with gradients enabled, " +
              size(validation),
          .instead =
              "item() returns a number and keeps no graph; memory leaks if a loss is kept as a "
              "tensor and no backward pass has freed its graph"};
}

}  // namespace oom_claims
