#include "experiments/oom_claims/dry_run.h"

#include <algorithm>
#include <optional>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "experiments/oom_claims/classification.h"
#include "stages/tensor/module_names.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/step_execution.h"

namespace oom_claims {

namespace {

using stages::Owner;

/// Sets the owner in `trace` of every tensor that belongs to the network or the optimizer.
void own_all(stages::MemoryTrace& trace, torch::nn::Module& network,
             const stages::Optimizer& optimizer) {
  for (const auto& item : network.named_parameters()) {
    trace.own(item.value(), Owner::kParameter, item.key());
    if (item.value().grad().defined()) trace.own(item.value().grad(), Owner::kGradient, item.key());
  }
  for (const auto& item : network.named_buffers())
    trace.own(item.value(), Owner::kBuffer, item.key());
  for (const auto& [name, tensor] : optimizer.state())
    trace.own(tensor, Owner::kOptimizerState, name);
}

stages::Batch images(std::int64_t number, std::int64_t side, stages::MemoryTrace& trace) {
  const at::TensorOptions options(at::kMeta);
  at::Tensor images = torch::empty({number, 3, side, side}, options);
  at::Tensor labels = torch::empty({number}, options.dtype(torch::kLong));
  trace.own(images, Owner::kInput, "image");
  trace.own(labels, Owner::kInput, "label");
  return stages::Batch({{"image", std::move(images)}, {"label", std::move(labels)}}, number);
}

/// Stores the trace in `run`, without the kernels' scratch memory, for which only a bound is known.
void finish(DryRun& run, const stages::MemoryTrace& trace) {
  run.storages = trace.storages();
  run.flops = trace.flops();
  const std::vector<stages::TraceEvent> all = trace.events();
  std::vector<std::size_t> kept_before = {0};
  for (const stages::TraceEvent& event : all) {
    if (!run.storages[event.storage].is_scratch) run.events.push_back(event);
    kept_before.push_back(run.events.size());
  }
  for (std::size_t& begin : run.steps) begin = kept_before[begin];
  run.steps.push_back(run.events.size());
}

/// Calls `see(live, event)` after each event from `first` on.
template <typename See>
void visit_events(const DryRun& run, std::size_t first, See see) {
  std::int64_t live = 0;
  for (std::size_t i = 0; i < run.events.size(); ++i) {
    const stages::TraceEvent& event = run.events[i];
    live += (event.is_birth ? 1 : -1) * run.storages[event.storage].bytes;
    if (i >= first) see(live, i);
  }
}

}  // namespace

DryRun dry_run(const Training& training, std::int64_t steps) {
  const at::Device meta(at::kMeta);
  stages::MemoryTrace trace({.device = at::kCUDA});
  const auto network = training.network.make(at::TensorOptions(meta));
  network->train();
  const stages::ScopedModuleNames names(*network, "");
  const ClassificationStep step;
  const auto groups = stages::divide_parameters(*network, kAdamW, {});
  stages::StepExecution execution(step, *network, groups, training.plan, {.norm = training.clip},
                                  meta);
  DryRun run;
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    run.steps.push_back(trace.events().size());
    const auto& batches = training.batches;
    const std::int64_t size =
        batches.empty() ? training.batch : batches[static_cast<std::size_t>(i) % batches.size()];
    for (std::int64_t part = 1; part < training.late_step; ++part) {
      const stages::Batch batch = images(size, training.side, trace);
      stages::accumulate_gradient(step, execution.network(), batch, step.weight(batch),
                                  training.plan, {7, number++});
    }
    const auto computed = execution.compute(images(size, training.side, trace), {7, number++});
    own_all(trace, *network, execution.optimizer());
    execution.commit(computed);
  }
  finish(run, trace);
  return run;
}

DryRun recorded(const std::function<void(stages::MemoryTrace&)>& work) {
  stages::MemoryTrace trace({.device = at::kCUDA});
  DryRun run{.steps = {0}};
  work(trace);
  finish(run, trace);
  return run;
}

std::int64_t peak(const DryRun& run, std::size_t first) {
  std::int64_t most = 0;
  visit_events(run, first, [&](std::int64_t live, std::size_t) { most = std::max(most, live); });
  return most;
}

std::int64_t peak(const DryRun& run) { return peak(run, run.last_step()); }

std::int64_t peak_in(const DryRun& run, stages::StepPhase phase) {
  std::int64_t most = 0;
  visit_events(run, run.last_step(), [&](std::int64_t live, std::size_t event) {
    if (run.events[event].phase == phase) most = std::max(most, live);
  });
  return most;
}

std::int64_t owned_at_peak(const DryRun& run, Owner owner) {
  const std::int64_t most = peak(run);
  std::int64_t live = 0, owned = 0;
  for (std::size_t i = 0; i < run.events.size(); ++i) {
    const stages::TracedStorage& storage = run.storages[run.events[i].storage];
    const std::int64_t bytes = (run.events[i].is_birth ? 1 : -1) * storage.bytes;
    live += bytes;
    if (storage.owner == owner) owned += bytes;
    if (i >= run.last_step() && live == most) break;
  }
  return owned;
}

std::int64_t owned(const DryRun& run, Owner owner) {
  const bool stays =
      owner == Owner::kParameter || owner == Owner::kOptimizerState || owner == Owner::kBuffer;
  std::int64_t sum = 0;
  for (std::size_t i = stays ? 0 : run.last_step(); i < run.events.size(); ++i) {
    const stages::TracedStorage& storage = run.storages[run.events[i].storage];
    if (run.events[i].is_birth && storage.owner == owner) sum += storage.bytes;
  }
  return sum;
}

std::int64_t largest(const DryRun& run, Owner owner) {
  std::int64_t most = 0;
  for (std::size_t i = run.last_step(); i < run.events.size(); ++i) {
    const stages::TracedStorage& storage = run.storages[run.events[i].storage];
    if (run.events[i].is_birth && storage.owner == owner) most = std::max(most, storage.bytes);
  }
  return most;
}

}  // namespace oom_claims
