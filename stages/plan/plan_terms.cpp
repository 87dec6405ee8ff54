#include "stages/plan/plan_terms.h"

#include <algorithm>
#include <numeric>
#include <string>

#include <torch/types.h>

#include "stages/artifact/episode_set.h"
#include "stages/plan/memory_budget.h"

namespace stages {
namespace {

/// The bytes of the tensors of one sample.
std::int64_t sample_bytes(const DatasetDescription& data) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : data.tensors) {
    std::int64_t elements = 1;
    for (const std::int64_t length : spec.shape) elements *= length;
    bytes += elements * static_cast<std::int64_t>(c10::elementSize(spec.dtype));
  }
  return bytes;
}

}  // namespace

Batch meta_batch(const DatasetDescription& data, std::int64_t units) {
  NamedTensors tensors;
  for (const TensorSpec& spec : data.tensors) {
    std::vector<std::int64_t> shape = {units};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    tensors.set(spec.name, torch::empty(shape, torch::TensorOptions(spec.dtype).device(torch::kMeta)));
  }
  Batch batch(std::move(tensors), units);
  batch.indices.resize(static_cast<std::size_t>(units));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  return batch;
}

void add_term(runner::MemoryPlan& plan, runner::NamedBytes term) {
  plan.predicted += term.bytes;
  plan.terms.push_back(std::move(term));
}

void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units) {
  if (device != at::kCPU || loader.workers == 0 || units == 0) return;
  const std::int64_t all = loader.drop_last ? data.size - data.size % units : data.size;
  const std::int64_t after_the_first = std::max<std::int64_t>(all - units, 0);
  const std::int64_t ahead = std::min(std::max<std::int64_t>(loader.prefetch, 1) * units, after_the_first);
  const std::int64_t bytes = sample_bytes(data);
  // What reads an episode has one of its images beside it.
  const auto episode = episode_shape(data);
  const std::int64_t image = episode ? bytes / episode->samples() : 0;
  add_term(plan, {"loader", ahead * bytes + loader.workers * (bytes + image),
                  std::to_string(ahead) + " samples read ahead, and one for each of " + std::to_string(loader.workers) +
                      " workers"});
}

void add_held_memory(runner::MemoryPlan& plan, const runner::PlanContext& context,
                     std::initializer_list<const Dataset*> datasets) {
  std::int64_t bytes = 0;
  for (const Dataset* dataset : datasets) bytes += dataset ? dataset->held().on_host : 0;
  if (bytes > 0 && at::Device(context.node().device).is_cpu()) add_term(plan, {"data", bytes, "kept in memory"});
  plan.held = context.held();
  plan.predicted += plan.held_bytes();
}

void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy, const runner::PlanContext& context) {
  std::optional<runner::NamedBytes> whole = context.dry().budget;
  if (!whole && context.dry().device_model.empty()) whole = device_memory(at::Device(context.node().device));
  const std::optional<runner::NamedBytes> budget = memory_budget(policy, whole);
  plan.must_fit = !policy.recovery.is_legacy;
  if (!budget) return;
  plan.budget = budget->bytes;
  plan.budget_from = budget->name;
}

}  // namespace stages
