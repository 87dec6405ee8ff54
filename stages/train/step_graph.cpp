#include "stages/train/step_graph.h"

#include <algorithm>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/counting_allocator.h"
#include "stages/plan/gpu_backend.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/recorder.h"
#include "stages/python/hosted_module.h"

namespace stages {

StepGraph::StepGraph(torch::nn::Module& network, at::Device device)
    : network_(network), device_(device) {}

StepGraph::Places StepGraph::places() const {
  Places places;
  const auto add = [&](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& one : tensors)
      places.emplace_back(one.storage().data(), one.requires_grad());
  };
  add(network_.parameters());
  add(network_.buffers());
  return places;
}

std::int64_t StepGraph::units_of_part() const {
  const std::int64_t whole = plan_.graph_batch;
  return plan_.micro_batch > 0 ? std::min(plan_.micro_batch, whole) : whole;
}

void StepGraph::begin(const Batch& batch) {
  const torch::NoGradGuard no_graph;
  if (Places now = places(); now != places_) {
    forget();
    places_ = std::move(now);
  }
  is_whole_ = batch.units() == plan_.graph_batch;
  std::vector<at::Tensor> gradients;
  for (const auto& [parameter, gradient] : gradients_) {
    parameter.mutable_grad() = gradient;
    gradients.push_back(gradient);
  }
  // Adding to -0 changes no bit of any number. Adding to 0 would change -0.
  if (!gradients.empty()) {
    at::_foreach_zero_(gradients);
    at::_foreach_neg_(gradients);
  }
  if (device_.is_meta() && is_whole_) begin_in_dry_run(batch);
}

/// Notes where the micro-batches begin in the trace, to find out what the graph needs. At the step
/// at which a run would record the graph, allocates that memory.
void StepGraph::begin_in_dry_run(const Batch& batch) {
  if (replays()) {
    if (pool_.defined()) return;
    pool_ = torch::empty({pool_bytes_}, at::TensorOptions(torch::kByte).device(device_));
    mark_pool(pool_);
    return;
  }
  if (living_recorder()) first_event_ = living_recorder()->place().events;
  input_bytes_.clear();
  for (const auto& [name, tensor] : batch.tensors())
    input_bytes_.push_back(static_cast<std::int64_t>(tensor.nbytes()) * units_of_part() /
                           batch.units());
}

void StepGraph::end() {
  if (!is_whole_ || replays()) return;
  if (gradients_.empty()) {
    for (const at::Tensor& parameter : network_.parameters())
      if (parameter.grad().defined()) gradients_.emplace_back(parameter, parameter.grad());
  }
  ++warmed_up_;
  if (device_.is_meta() && replays()) pool_bytes_ = pool_of_graph(first_event_, input_bytes_);
}

void StepGraph::forget() {
  graph_.reset();
  part_.reset();
  dropout_.reset();
  weight_ = {};
  row_.reset();
  pool_.reset();
  gradients_.clear();
  warmed_up_ = 0;
}

/// True if `part` is like the recorded part or, before the recording, like the part to record.
bool StepGraph::is_like_recorded(const Batch& part, const Weight& weight) const {
  if (!replays() || part.units() != units_of_part()) return false;
  if (!part_) return is_whole_;
  const bool is_weighed =
      weight.on_device.defined() ? is_whole_ : weight.on_host == weight_.on_host;
  if (!is_weighed || part.tensors().size() != part_->tensors().size()) return false;
  return std::ranges::all_of(part.tensors(), [&](const auto& item) {
    const auto& [name, tensor] = item;
    if (!part_->tensors().contains(name)) return false;
    const at::Tensor recorded = (*part_)[name];
    return tensor.sizes() == recorded.sizes() && tensor.strides() == recorded.strides() &&
           tensor.scalar_type() == recorded.scalar_type();
  });
}

at::Tensor StepGraph::run(const Batch& part, const Weight& weight, StepNumbers& numbers,
                          const Compute& compute) {
  if (!is_like_recorded(part, weight)) {
    at::Tensor row = compute(part);
    width_ = row.size(0);
    return row;
  }
  if (device_.is_meta())
    return torch::empty({width_}, at::TensorOptions(torch::kDouble).device(device_));
  const torch::NoGradGuard no_graph;
  load(part, weight);
  if (!graph_) record(numbers, compute);
  graph_->replay();
  numbers.set_names(names_);
  return row_.clone();
}

/// Copies what the graph reads to where it reads it: the part, the weight, and the step and the
/// samples that the masks of dropout depend on. All but the part stay where they were when it was
/// recorded.
void StepGraph::load(const Batch& part, const Weight& weight) {
  const DropoutNames names(network_);
  if (!part_) {
    part_ = with_own_memory(part);
    weight_ = weight;
    dropout_ = names;
  }
  for (const auto& [name, tensor] : part.tensors()) (*part_)[name].copy_(tensor);
  if (weight_.on_device.defined()) weight_.on_device.copy_(weight.on_device);
  dropout_->copy_from(names);
}

/// Returns a batch with the names and shapes of `part` and its own uninitialized memory.
Batch StepGraph::with_own_memory(const Batch& part) {
  empty_cache(device_);  // the graph may need what the warm-up has left unused
  Batch own = part;
  own.indices.clear();
  for (const auto& [name, tensor] : part.tensors()) own = own.with(name, torch::empty_like(tensor));
  return own;
}

void StepGraph::record(StepNumbers& numbers, const Compute& compute) {
  graph_ = gpu::capture(device_, [&] {
    const torch::AutoGradMode with_graph(true);
    row_ = compute(*part_);
  });
  names_ = numbers.names();
  ++recorded_;
}

namespace {

[[noreturn]] void refuse(const MemoryPolicy& policy, const std::string& why,
                         const std::string& help = "set cuda_graphs: false") {
  throw runner::StageError(
      runner::ErrorCode::kOptionConflict,
      "cuda_graphs replays the operations of a step without running its code, but " + why)
      .at("/cuda_graphs")
      .in_stage(policy.pointer)
      .with_help(help);
}

}  // namespace

void refuse_cuda_graphs_on_cpu(const MemoryPolicy& policy) {
  refuse(policy, "this stage runs on the CPU, which records none",
         "set cuda_graphs: false, or device: cuda");
}

void check_cuda_graphs(const MemoryPolicy& policy, const StepPlan& plan, const TrainingStep& step,
                       const torch::nn::Module& network, int ranks) {
  if (!policy.cuda_graphs) return;
  if (ranks > 1)
    refuse(policy, "ranks exchange data within a step",
           "set cuda_graphs: false, or device.count: 1");
  if (plan.two_pass)
    refuse(policy,
           "two_pass computes the loss of the whole batch between two passes over its parts",
           "set cuda_graphs: false, or micro_batch to the size of the batch");
  if (plan.optimizer_in_backward)
    refuse(policy,
           "optimizer_in_backward frees each gradient, but a graph needs it at a fixed address",
           "set cuda_graphs: false, or optimizer_in_backward: false");
  if (const std::string why = step.why_not_replayed(); !why.empty()) refuse(policy, why);
  for (const auto& module : network.modules()) {
    if (dynamic_cast<const HostedModule*>(module.get()))
      refuse(policy, "the network is Python code, which may behave differently in each step");
  }
}

}  // namespace stages
