#include "stages/plan/plan_forward.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/episode_set.h"
#include "stages/machine/device.h"
#include "stages/numerics/prepared_network.h"
#include "stages/plan/block_recording.h"
#include "stages/plan/gpu_backend.h"
#include "stages/plan/measured_work.h"
#include "stages/plan/memory_budget.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/real_samples.h"
#include "stages/plan/real_steps.h"
#include "stages/plan/summarize.h"
#include "stages/tensor/module_names.h"
#include "stages/tensor/step_phase.h"

namespace stages {
namespace {

/// The plan for consecutive batches of one size, without the memory for their results.
struct OneSize {
  runner::MemoryPlan plan;
  at::Tensor output;  // on the Meta device
  Numerics numerics;
};

OneSize traced_size(const ForwardToPlan& forward, std::int64_t units,
                    runner::PlanContext& context) {
  const Backend backend = planned_backend(context);
  MemoryTrace trace(backend);
  const std::vector<at::Tensor> workspaces = library_workspaces(trace);
  const std::shared_ptr<torch::nn::Module> network = forward.outline();
  const Numerics numerics =
      choose_numerics(forward.policy.numerics(), *network, forward.name, context);
  const PreparedNetwork prepared(*network, numerics, at::kMeta);
  const auto in_network = [&](const std::string& name) { return forward.name + "." + name; };
  for (const auto& item : network->named_parameters())
    trace.own(item.value(), Owner::kParameter, in_network(item.key()));
  for (const auto& item : network->named_buffers())
    trace.own(item.value(), Owner::kBuffer, in_network(item.key()));
  const ScopedModuleNames names(*network, forward.name);
  const ScopedPhase phase(StepPhase::kEvaluate);
  at::Tensor output;
  for (int pass = 0; pass < 2; ++pass) {
    output.reset();
    const Batch batch = meta_batch(forward.data, units), laid_out = prepared.placed(batch);
    for (const Batch* one : {&batch, &laid_out}) {
      for (const auto& [name, tensor] : one->tensors()) trace.own(tensor, Owner::kInput, name);
    }
    const ScopedInference inference(prepared);
    output = forward.forward(*network, laid_out.tensors());
  }
  return {summarize(trace, 0, backend, forward.policy.allocator), output, numerics};
}

/// Real batches that were run on the device because the dry run had failed.
struct RealBatches {
  std::string why;  // the dry run's error; empty if it has not failed
  MeasuredWork work;
  std::vector<TracedStorage> kept;  // live between batches
  at::Tensor output;                // output for the largest batch, on the Meta device
  std::int64_t output_units = 0;
  Numerics numerics;
};

void run_batches(const ForwardToPlan& forward, RealBatches& real, runner::PlanContext& context) {
  constexpr std::int64_t kUnitsAtMost = 4;
  const at::Device device{context.node().device};
  const Batch samples = first_units(forward.samples, sequential_order(forward.data.size),
                                    std::min(kUnitsAtMost, forward.data.size));
  BlockRecording recording(device);
  const std::shared_ptr<torch::nn::Module> network = forward.build();
  network->to(device);
  network->eval();
  real.numerics = choose_numerics(forward.policy.numerics(), *network, forward.name, context);
  const PreparedNetwork prepared(*network, real.numerics, device);
  const auto in_network = [&](const std::string& name) { return forward.name + "." + name; };
  for (const auto& item : network->named_parameters())
    recording.own(item.value(), Owner::kParameter, in_network(item.key()));
  for (const auto& item : network->named_buffers())
    recording.own(item.value(), Owner::kBuffer, in_network(item.key()));
  const ScopedPhase phase(StepPhase::kEvaluate);
  const auto run = [&](std::int64_t units) {
    if (context.canceled()) throw runner::Canceled{};
    const std::size_t begin = recording.place();
    const Batch laid_out = prepared.placed(copied(samples.part(0, units)));
    for (const auto& [name, tensor] : laid_out.tensors())
      recording.own(tensor, Owner::kInput, name);
    const ScopedInference inference(prepared);
    real.output = forward.forward(*network, laid_out.tensors()).to(at::kMeta);
    real.output_units = units;
    return recording.since(begin);
  };
  run(1);
  real.kept = recording.alive();
  for (std::int64_t units = 1; units <= samples.units(); ++units) {
    try {
      real.work.add(units, run(units));
    } catch (const std::exception& error) {
      if (real.work.empty() || !is_out_of_memory(error, device)) throw;
      break;
    }
  }
}

OneSize measured_size(const ForwardToPlan& forward, std::int64_t units, RealBatches& real,
                      runner::PlanContext& context) {
  if (real.work.empty()) {
    check_may_measure(real.why, context);
    do_for_plan(forward.policy, context, [&] { run_batches(forward, real, context); });
  }
  MeasuredHistory history;
  for (const TracedStorage& storage : real.kept) history.keep(storage);
  for (int pass = 0; pass < 2; ++pass) history.add(real.work.at(units));
  OneSize result{history.plan(0, units, planned_backend(context), forward.policy.allocator),
                 at::Tensor(), real.numerics};
  result.plan.measured = real.why;
  std::vector<std::int64_t> shape = real.output.sizes().vec();
  if (!shape.empty()) shape[0] = shape[0] / real.output_units * units;
  result.output = torch::empty(shape, real.output.options());
  return result;
}

PlannedForward trace_forward(const ForwardToPlan& forward, std::int64_t batch_size,
                             bool keeps_results, RealBatches& real, runner::PlanContext& context) {
  const at::Device device{context.node().device};
  const std::int64_t units = std::min(batch_size, forward.data.size);
  OneSize one;
  if (real.why.empty()) {
    try {
      one = traced_size(forward, units, context);
    } catch (const std::exception&) {
      if (!forward.build) throw;
      real.why = why_not_dry();
    }
  }
  if (!real.why.empty()) one = measured_size(forward, units, real, context);
  PlannedForward planned{
      .plan = std::move(one.plan), .output = std::move(one.output), .batch_size = batch_size};
  if (keeps_results && device.is_cpu() && units > 0) {
    const std::int64_t all =
        static_cast<std::int64_t>(planned.output.nbytes()) / units * forward.data.size;
    add_term(planned.plan,
             {"results", 2 * all, "of all samples, computed batch by batch and joined"});
  }
  add_read_ahead(planned.plan, device.type(), forward.data, forward.loader, units);
  add_held_memory(planned.plan, context, {forward.dataset});
  planned.plan.device =
      context.dry().device_model.empty() ? context.node().device : context.dry().device_model;
  planned.plan.step = {{"batch_size", units}};
  planned.plan.step.update(to_json(one.numerics));
  if (forward.besides && device.is_cpu()) forward.besides(planned);
  set_budget(planned.plan, forward.policy, context);
  return planned;
}

/// Returns the plan with the largest batch that fits; nullopt if not even one sample fits. The peak
/// grows with the batch size, so bisection finds it.
std::optional<PlannedForward> largest_that_fits(const ForwardToPlan& forward, bool keeps_results,
                                                RealBatches& real, runner::PlanContext& context) {
  std::optional<PlannedForward> largest;
  std::int64_t fitting = 0, failing = std::min(forward.batch_size, forward.data.size);
  while (failing - fitting > 1) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    PlannedForward one = trace_forward(forward, middle, keeps_results, real, context);
    const bool fits = one.plan.fits();
    if (fits) largest = std::move(one);
    (fits ? fitting : failing) = middle;
  }
  return largest;
}

}  // namespace

PlannedForward plan_forward(const ForwardToPlan& forward, bool keeps_results,
                            runner::PlanContext& context) {
  register_meta_kernels();
  RealBatches real;
  PlannedForward asked = trace_forward(forward, forward.batch_size, keeps_results, real, context);
  if (asked.plan.fits()) return asked;
  std::optional<PlannedForward> smaller = largest_that_fits(forward, keeps_results, real, context);
  if (!smaller) return asked;
  const std::string size = std::to_string(smaller->batch_size);
  if (forward.policy.allow != Allow::kExact) {
    asked.plan.alternatives.push_back({.overrides = {forward.batch_option + "=" + size},
                                       .exactness = "exact",
                                       .needed = smaller->plan.needed});
    return asked;
  }
  smaller->plan.choice = {.overrides = {forward.batch_option + "=" + size},
                          .exactness = "exact",
                          .summary = "batches of " + size + " samples",
                          .whole = asked.plan.needed,
                          .time_model = ""};
  return *std::move(smaller);
}

namespace {

/// Returns the bytes in one sample's tensors.
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

Backend planned_backend(const runner::PlanContext& context) {
  const at::Device device{context.node().device};
  return {
      .device = device.type(),
      .threads = at::get_num_threads(),
      .model = context.dry().device_model.empty() ? gpu_model(device) : context.dry().device_model};
}

Batch meta_batch(const DatasetDescription& data, std::int64_t units) {
  NamedTensors tensors;
  for (const TensorSpec& spec : data.tensors) {
    std::vector<std::int64_t> shape = {units};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    tensors.set(spec.name,
                torch::empty(shape, torch::TensorOptions(spec.dtype).device(torch::kMeta)));
  }
  Batch batch(std::move(tensors), units);
  batch.indices.resize(static_cast<std::size_t>(units));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  return batch;
}

void add_term(runner::MemoryPlan& plan, runner::NamedBytes term) {
  plan.needed += term.bytes;
  plan.terms.push_back(std::move(term));
}

void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units) {
  if (device != at::kCPU || loader.workers == 0 || units == 0) return;
  const std::int64_t all = loader.drop_last ? data.size - data.size % units : data.size;
  const std::int64_t after_the_first = std::max<std::int64_t>(all - units, 0);
  const std::int64_t ahead =
      std::min(std::max<std::int64_t>(loader.prefetch, 1) * units, after_the_first);
  const std::int64_t bytes = sample_bytes(data);
  // A worker that reads an episode also keeps one of its images.
  const auto episode = episode_shape(data);
  const std::int64_t image = episode ? bytes / episode->samples() : 0;
  add_term(plan, {"loader", ahead * bytes + loader.workers * (bytes + image),
                  std::to_string(ahead) + " samples read ahead, and one for each of " +
                      std::to_string(loader.workers) + " workers"});
}

void add_held_memory(runner::MemoryPlan& plan, const runner::PlanContext& context,
                     std::initializer_list<const Dataset*> datasets) {
  std::int64_t bytes = 0;
  for (const Dataset* dataset : datasets) bytes += dataset ? dataset->held().on_host : 0;
  if (bytes > 0 && at::Device(context.node().device).is_cpu())
    add_term(plan, {"data", bytes, "kept in memory"});
  plan.held = context.held();
  plan.needed += plan.held_bytes();
}

void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy,
                const runner::PlanContext& context) {
  std::optional<runner::NamedBytes> whole = context.dry().budget;
  if (!whole && context.dry().device_model.empty())
    whole = device_memory(at::Device(context.node().device));
  const std::optional<runner::NamedBytes> budget = memory_budget(policy, whole);
  plan.must_fit = !policy.recovery.halves_batch;
  if (!budget) return;
  plan.budget = budget->bytes;
  plan.budget_from = budget->name;
}

}  // namespace stages
