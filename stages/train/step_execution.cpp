#include "stages/train/step_execution.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/run_context.h"
#include "stages/numerics/running_statistics.h"
#include "stages/plan/memory_trace.h"
#include "stages/python/hosted_module.h"
#include "stages/ranks/rank_group.h"
#include "stages/tensor/step_phase.h"
#include "stages/train/layer_decay.h"
#include "stages/train/optimizer.h"

namespace stages {
namespace {

/// Returns 1 if the loss is not finite, otherwise 0.
at::Tensor is_broken(const at::Tensor& loss) {
  return loss.detach().isfinite().logical_not().to(torch::kFloat);
}

std::vector<at::Tensor> parameters_of(const std::vector<ParameterGroup>& groups) {
  std::vector<at::Tensor> parameters;
  for (const ParameterGroup& group : groups) {
    for (const auto& [name, tensor] : group.parameters) parameters.push_back(tensor);
  }
  return parameters;
}

StateShard shard_under(const StepPlan& plan, const torch::nn::Module& network,
                       const std::vector<ParameterGroup>& groups, const runner::RankOfRun& ranks) {
  if (!plan.shards_optimizer()) return {};
  const std::vector<at::Tensor> parameters = parameters_of(groups);
  return plan.shards_parameters() ? shard_of_blocks(network, parameters, ranks.rank, ranks.size)
                                  : shard_of(parameters, ranks.rank, ranks.size);
}

/// Returns a function that is true for the weights that only other ranks will have; null: none.
std::function<bool(const at::Tensor&)> elsewhere_under(const StepPlan& plan,
                                                       const torch::nn::Module& network,
                                                       const std::vector<ParameterGroup>& groups,
                                                       const StateShard& shard) {
  if (!plan.shards_parameters()) return {};
  return [elsewhere = parameters_elsewhere(network, parameters_of(groups), shard)](
             const at::Tensor& weight) { return elsewhere.contains(weight.unsafeGetTensorImpl()); };
}

}  // namespace

StepExecution::StepExecution(const TrainingStep& step, torch::nn::Module& network,
                             const std::vector<ParameterGroup>& groups, StepPlan plan,
                             GradientClip clip, at::Device device,
                             std::optional<WeightAverageOptions> average,
                             const runner::RankOfRun& ranks, std::int64_t histograms_every)
    : step_(step),
      plan_(std::move(plan)),
      network_(network, plan_.numerics, device),
      clip_(std::move(clip)),
      shard_(shard_under(plan_, network, groups, ranks)),
      optimizer_(groups, plan_.offloads_optimizer, shard_),
      sum_(ranks),
      histograms_every_(histograms_every) {
  if (plan_.numerics.precision.uses(Precision::kFp16))
    scaler_.emplace(GradScaler::Options{}, device);
  if (average) average_.emplace(network, *average, elsewhere_under(plan_, network, groups, shard_));
  if (plan_.shards_gradients()) sharded_.emplace(optimizer_.parameters(), shard_, ranks);
  if (plan_.graph_batch > 0 && !device.is_cpu()) graph_.emplace(network, device);
}

BatchBuffers& StepExecution::copy_ahead(const Batch& largest) {
  sum_.stay_on_device();
  return batches_.emplace(arranged(largest), network_.device());
}

/// Returns the batch to compute with, on the host.
Batch StepExecution::arranged(const Batch& batch) const {
  std::optional<ScopedUntraced> on_the_host;
  if (network_.device().is_meta()) on_the_host.emplace();
  return step_.arrange(batch, BatchUse::kTraining);
}

Batch StepExecution::on_device(const Batch& batch) {
  if (batches_) return network_.placed(batches_->fill(arranged(batch)));
  return network_.placed(step_.arrange(batch, BatchUse::kTraining));
}

void StepExecution::divide_parameters() {
  if (!plan_.shards_parameters()) return;
  divided_.emplace(network_.module(), optimizer_.parameters(), shard_, ranks());
}

void StepExecution::join_parameters() {
  if (!divided_) return;
  divided_->join();
  divided_.reset();
}

std::optional<int> StepExecution::owner_of_weight(std::string_view name) const {
  if (!divided_) return {};
  for (const std::string_view ending : {"", ".average", ".trained"}) {
    if (!name.ends_with(ending)) continue;
    const auto owner = divided_->owner_of(name.substr(0, name.size() - ending.size()));
    if (owner) return owner;
  }
  return {};
}

NamedTensors StepExecution::with_average(NamedTensors state) const {
  if (!average_) return state;
  for (const auto& [name, tensor] : average_->state()) state.set(name, tensor);
  return state;
}

NamedTensors StepExecution::state() const { return with_average(optimizer_.state()); }

NamedTensors StepExecution::state_on_device() const {
  return with_average(optimizer_.state_on_device());
}

void StepExecution::replace_plan(StepPlan plan) {
  assert(plan.numerics == plan_.numerics && plan.offloads_optimizer == plan_.offloads_optimizer &&
         plan.sharding == plan_.sharding);
  plan_ = std::move(plan);
  if (graph_) graph_->forget();
}

StepExecution::Computed StepExecution::compute(const Batch& batch, const StepKey& key,
                                               const std::function<void()>& after_micro_batch,
                                               const std::function<void()>& before_step) {
  const double weight = step_.weight(batch);
  is_half_written_ = false;
  std::optional<ScopedStepsInBackward> steps;
  const auto before_backward = [&](const at::Tensor& loss) {
    if (!plan_.optimizer_in_backward) return;
    const at::Tensor skip = is_broken(loss);
    if (failed_.defined()) skip.clamp_min_(failed_);
    steps.emplace(optimizer_, skip, clip_, is_half_written_);
  };
  StepGraph* const graph = graph_ && plan_.graph_batch > 0 ? &*graph_ : nullptr;
  StepGraph::Step replayed(graph, plan_);
  std::optional<Batch> prepared;
  const auto prepare = [&] {
    if (runs_ahead() && !failed_.defined())
      failed_ = torch::zeros({}, at::TensorOptions(torch::kFloat).device(network_.device()));
    if (before_step) before_step();
    prepared = step_.prepare(on_device(batch), key);
  };
  const auto accumulate = [&] {
    if (graph) graph->begin(*prepared);
    StepNumbers own =
        accumulate_gradient(step_, network_, *prepared, weight, plan_, key,
                            {.scale = scaler_ ? std::optional(scaler_->scale()) : std::nullopt,
                             .after_micro_batch = after_micro_batch,
                             .before_backward = before_backward,
                             .ranks = ranks(),
                             .sharded = sharded_ ? &*sharded_ : nullptr,
                             .graph = graph});
    if (graph) graph->end();
    prepared.reset();
    steps.reset();
    return own;
  };
  if (sharded_) sharded_->begin();
  SummedNumbers summed = accumulate_over_ranks(
      sum_, sharded_ ? std::vector<at::Tensor>() : optimizer_.parameters(), step_, plan_, prepare,
      accumulate, [&] { return is_rest_safe(key.step); });
  StepNumbers& numbers = summed.numbers;
  at::Tensor scratch;
  std::vector<bool> present;
  std::vector<at::Tensor> gradients;
  std::optional<at::Tensor> overflow, divisor, skip;
  std::optional<Messages> updated;
  std::optional<GradientHistograms> histograms;
  const auto finish = [&] {
    present = present_gradients();
    if (!plan_.optimizer_in_backward) scratch = optimizer_.prepare();
    gradients = optimizer_.gradients();
    if (!shard_.is_whole()) updated = updated_weights(present);
    if (scaler_) {
      const ScopedPhase phase(StepPhase::kUnscale);
      overflow = scaler_->unscale(gradients);
      if (are_gradients_elsewhere()) {
        group_of(ranks())->sum_in_work(*overflow);
        overflow->clamp_max_(1);
      }
      numbers.set_scaling(scaler_->scale(), *overflow);
    }
    if (counts_gradients(key.step)) {
      const ScopedPhase phase(StepPhase::kHistogram);
      histograms.emplace(optimizer_.named_parameters(), present, [this](const at::Tensor& counts) {
        if (are_gradients_elsewhere()) group_of(ranks())->sum_in_work(counts);
      });
    }
    if (clip_.is_local()) {
      const ScopedPhase phase(StepPhase::kClip);
      clip_each(optimizer_.parameters(), clip_);
    }
    if (clip_.norm && std::ranges::find(present, true) != present.end()) {
      const ScopedPhase phase(StepPhase::kClip);
      const at::Tensor norm = norm_of_all(gradients);
      numbers.set_gradient_norm(norm);
      divisor = clip_divisor(norm, *clip_.norm);
    }
    skip = overflow;
    if (runs_ahead()) {
      failed_.clamp_min_(numbers.failed(step_.terms().size()));
      skip = overflow ? failed_.clamp_min(*overflow) : failed_.clone();
    }
    numbers.fetch();
  };
  if (summed.is_rest_safe) finish();
  else together(ranks(), finish);
  replayed.end();
  return {std::move(numbers),    std::move(gradients), std::move(overflow), std::move(divisor),
          std::move(skip),       std::move(scratch),   std::move(updated),  key.step,
          std::move(histograms), std::move(present)};
}

/// True if the host runs ahead of the device, without waiting to check each step.
bool StepExecution::runs_ahead() const { return network_.device().is_cuda() || batches_; }

bool StepExecution::counts_gradients(std::int64_t step) const {
  return histograms_every_ > 0 && (step - 1) % histograms_every_ == 0;
}

/// True if a step allocates nothing once its gradients have been computed. Then the ranks need not
/// wait for each other before they commit it.
bool StepExecution::is_rest_safe(std::int64_t step) const {
  return !runs_ahead() && shard_.is_whole() && !scaler_ && !counts_gradients(step) &&
         !clip_.is_local() && !clip_.norm && optimizer_.is_prepared();
}

/// Returns for each parameter whether it has a gradient, on this rank or on the one that owns it.
std::vector<bool> StepExecution::present_gradients() {
  if (sharded_) return sharded_->finish();
  std::vector<bool> present;
  for (const at::Tensor& parameter : optimizer_.parameters())
    present.push_back(parameter.grad().defined());
  return present;
}

/// True if other ranks have gradients that this one lacks.
bool StepExecution::are_gradients_elsewhere() const { return sharded_ && group_of(ranks()); }

/// Returns the norm of this rank's gradients and those that are only on other ranks.
at::Tensor StepExecution::norm_of_all(const std::vector<at::Tensor>& gradients) const {
  if (!are_gradients_elsewhere()) return global_norm(gradients);
  const at::Tensor norm = gradients.empty()
                              ? torch::zeros({}, optimizer_.parameters().front().options())
                              : global_norm(gradients);
  const at::Tensor square = norm.to(torch::kDouble).square();
  group_of(ranks())->sum_in_work(square);
  return square.sqrt().to(norm.scalar_type());
}

/// Returns the weights that an optimizer step changes, with the ranks that update them, excluding
/// those that only these ranks keep.
Messages StepExecution::updated_weights(const std::vector<bool>& present) const {
  const std::vector<at::Tensor> parameters = optimizer_.parameters();
  std::vector<ToSend> weights;
  for (int rank = 0; rank < ranks().size; ++rank) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool is_sent = present[i] && !(divided_ && divided_->keeps_apart(parameters[i]));
      if (shard_.owners[i] == rank && is_sent) weights.push_back({parameters[i], rank});
    }
  }
  return Messages(weights);
}

void StepExecution::commit(const Computed& computed) {
  const ScopedPhase phase(StepPhase::kOptimizer);
  const torch::NoGradGuard no_graph;
  const auto& divisor = computed.divisor;
  const bool clips = divisor && (!network_.device().is_cpu() || divisor->item<double>() > 1);
  if (!plan_.optimizer_in_backward)
    optimizer_.step(computed.skip, clips ? divisor : std::nullopt, computed.scratch,
                    computed.present);
  if (computed.updated) {
    RankGroup* const group = group_of(ranks());
    computed.updated->exchange([&](const at::Tensor& message, int rank) {
      if (group) group->broadcast(message, rank);
    });
  }
  step_.constrain(network_.module());
  is_half_written_ = false;
  if (scaler_) scaler_->update(*computed.overflow);
  if (average_) average_->update(computed.step);
  drop_gradients(network_.module());
}

namespace {

void check_sharded_parameters(const MemoryPolicy& policy, const torch::nn::Module& network,
                              const TrainerOptions& options) {
  const auto modules = network.modules();
  const bool is_hosted = std::ranges::any_of(modules, [](const auto& module) {
    return dynamic_cast<const HostedModule*>(module.get()) != nullptr;
  });
  if (is_hosted) {
    refuse_sharded_parameters(policy, "does not support networks in Python code",
                              "set shard: gradients");
  }
  if (options.average_best > 0) {
    refuse_sharded_parameters(policy, "cannot average the weights of the best epochs",
                              "set average_best: 0, or shard: gradients");
  }
  if (policy.recovery.halves_batch) {
    refuse_sharded_parameters(policy, "cannot start over as on_oom_policy: legacy requires",
                              "set on_oom_policy: exact, or shard: gradients");
  }
}

/// Throws if the ranks would collect running statistics that differ from those of a single process.
void check_statistics_of_groups(const TrainingStep& step, const torch::nn::Module& network,
                                int ranks) {
  if (!is_over_groups(step) || !step.mixes_samples() ||
      !running_statistics_of(network).has_unknown_layers)
    return;
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           "device.count: " + std::to_string(ranks) +
                               " divides the groups of a batch among that many processes, but "
                               "BatchNorm layers in Python code collect running statistics over "
                               "all groups")
      .in_stage("/device")
      .at("/count")
      .with_help(
          "use layers without running statistics (track_running_stats=False), or set "
          "device.count: 1");
}

}  // namespace

StepPlan plan_under(const MemoryPolicy& policy, const TrainingStep& step,
                    const torch::nn::Module& network, std::int64_t samples,
                    const TrainerOptions& options, Numerics numerics, int ranks) {
  if (policy.optimizer_in_backward && options.gradient_clip_norm) {
    refuse_in_backward(policy, "gradient_clip_norm needs the norm of all gradients together",
                       "set optimizer_in_backward: false, or gradient_clip_norm: null");
  }
  if (policy.optimizer_in_backward && options.log_gradients_every > 0) {
    refuse_in_backward(policy, "log_gradients_every counts all gradients of a step together",
                       "set optimizer_in_backward: false, or log_gradients_every: 0");
  }
  if (policy.sharding == Sharding::kParameters && ranks > 1)
    check_sharded_parameters(policy, network, options);
  if (ranks > 1) check_statistics_of_groups(step, network, ranks);
  const std::int64_t units = std::min(options.batch_size, samples);
  StepPlan plan =
      make_step_plan(step, policy, units, std::move(numerics),
                     activation_checkpointing_for(network, options.model_stage,
                                                  policy.activation_checkpointing, policy.pointer),
                     /*declares_cut=*/policy.micro_batch == options.accumulated_micro_batch, ranks);
  check_cuda_graphs(policy, plan, step, network, ranks);
  if (policy.cuda_graphs) plan.graph_batch = units;
  return plan;
}

namespace {

GradientClip clip_of(const TrainerOptions& options, const torch::nn::Module& network) {
  GradientClip clip{.norm = options.gradient_clip_norm,
                    .value = options.gradient_clip_value,
                    .adaptive = options.adaptive_gradient_clip};
  if (clip.adaptive && clip.adaptive->skip_head) clip.head = last_layer(network);
  return clip;
}

}  // namespace

StepExecution assemble_step(const TrainingStep& step, torch::nn::Module& network,
                            std::int64_t samples, const TrainerOptions& options,
                            const MemoryPolicy& policy, c10::Device device,
                            runner::RunContext& context) {
  network.train();
  if (options.swa) refuse_unknown_statistics(network, "swa");
  if (options.average_best > 0) refuse_unknown_statistics(network, "average_best");
  const std::vector<ParameterGroup> groups = groups_of_training(network, options);
  StepPlan plan =
      plan_under(policy, step, network, samples, options,
                 choose_numerics(policy.numerics(), network, options.model_stage, context),
                 context.node().ranks.size);
  if (at::Device(context.node().device).is_cpu()) {
    plan.offloads_optimizer = false;  // the state is already in host memory
    if (plan.graph_batch > 0 && !context.node().restarts.has_moved)
      refuse_cuda_graphs_on_cpu(policy);
    plan.graph_batch = 0;
  }
  runner::RankOfRun ranks = context.node().ranks;
  if (device.is_meta())
    ranks.peers = nullptr;  // the other ranks may trace at another time, or never
  return StepExecution(step, network, groups, std::move(plan), clip_of(options, network), device,
                       options.average, ranks, options.log_gradients_every);
}

namespace {

namespace autograd = torch::autograd;

struct StepOfOne final : autograd::PostAccumulateGradHook {
  StepOfOne(Optimizer& optimizer, std::size_t parameter, std::optional<at::Tensor> skip,
            const GradientClip& clip, bool& has_begun)
      : optimizer(optimizer),
        parameter(parameter),
        skip(std::move(skip)),
        clip(clip),
        has_begun(has_begun) {}

  void operator()(const at::Tensor& tensor) override {
    has_begun = true;
    mark_gradient(tensor.grad());
    if (clip.is_local()) clip_each({tensor}, clip);
    optimizer.step_one(parameter, skip);
    tensor.mutable_grad().reset();
  }

  Optimizer& optimizer;
  const std::size_t parameter;
  const std::optional<at::Tensor> skip;
  const GradientClip& clip;
  bool& has_begun;
};

}  // namespace

ScopedStepsInBackward::ScopedStepsInBackward(Optimizer& optimizer,
                                             const std::optional<at::Tensor>& skip,
                                             const GradientClip& clip, bool& has_begun)
    : parameters_(optimizer.parameters()) {
  optimizer.begin_steps();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    autograd::impl::set_post_acc_grad_hooks(
        parameters_[i], std::make_unique<StepOfOne>(optimizer, i, skip, clip, has_begun));
}

ScopedStepsInBackward::~ScopedStepsInBackward() {
  for (const at::Tensor& parameter : parameters_)
    autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

}  // namespace stages
