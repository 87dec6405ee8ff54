#include "stages/train/measured_training.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/device.h"
#include "stages/plan/block_recording.h"
#include "stages/plan/plan_forward.h"
#include "stages/plan/real_samples.h"
#include "stages/plan/real_steps.h"
#include "stages/tensor/step_phase.h"
#include "stages/train/plan_training.h"
#include "stages/train/shared_traces.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_plan.h"
#include "stages/train/step_snapshot.h"
#include "stages/train/validation.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::int64_t kMostAtOnce = 4;  // units run at once

std::int64_t bytes_of(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// True if the policies compute a step in the same way, except for the size of its parts and the
/// allocator's settings.
bool are_one_way(MemoryPolicy one, const MemoryPolicy& other) {
  one.micro_batch = other.micro_batch;
  one.min_micro_batch = other.min_micro_batch;
  one.micro_batch_is_most = other.micro_batch_is_most;
  one.allocator = other.allocator;
  one.empty_cache_every = other.empty_cache_every;
  return is_computed_alike(one, other);
}

/// True if `policy` computes a step like `written`, with or without recomputed blocks if that
/// choice is open.
bool is_offered(MemoryPolicy policy, const MemoryPolicy& written) {
  const bool recomputes_blocks =
      policy.activation_checkpointing == ActivationCheckpointing{.blocks = true};
  if (written.checkpointing_is_open && recomputes_blocks)
    policy.activation_checkpointing = written.activation_checkpointing;
  return are_one_way(std::move(policy), written);
}

/// Runs training steps on the training run's device and records how much memory they use.
class RealSteps {
 public:
  RealSteps(const TrainingToPlan& training, const MemoryPolicy& policy, bool is_cut,
            runner::PlanContext& context)
      : training_(training),
        step_(training.step),
        context_(context),
        device_(context.node().device),
        is_cut_(is_cut),
        least_(least_units(training.step)),
        samples_(first_units(training.samples,
                             training.samples->epoch_order(context.node().seed, /*epoch=*/0),
                             kMostAtOnce * parts(), check_of(*training.samples))),
        recording_(device_),
        network_(built()),
        execution_(assemble_step(step_, *network_, training.data.size,
                                 options_of_dry_run(training.options), policy, device_, context)) {
    for (const auto& item : network_->named_parameters())
      recording_.own(item.value(), Owner::kParameter, in_network(item.key()));
    for (const auto& item : network_->named_buffers())
      recording_.own(item.value(), Owner::kBuffer, in_network(item.key()));
    run(least_, parts());  // allocates the optimizer state
  }

  /// Returns the storages that stay live between two steps.
  std::vector<TracedStorage> kept() const { return recording_.alive(); }
  const StepExecution& execution() const { return execution_; }
  const torch::nn::Module& network() const { return *network_; }

  /// Measures steps with parts of each size up to `most`; there may be enough memory for only some
  /// of them.
  MeasuredWork steps(std::int64_t most) {
    return of_sizes(most, [this](std::int64_t size) { return run(size, parts()); });
  }

  /// Returns how many bytes each additional unit of a split batch needs.
  std::int64_t per_unit_of_batch(const MeasuredWork& steps) {
    if (!is_cut_) return 0;
    std::int64_t more = 0;
    try {
      more = most_live(run(least_, 3)) - most_live(steps.at(least_));
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error, device_)) throw;
    }
    const std::int64_t sample = bytes_of(samples_.part(0, 1).tensors());
    return std::max((more + least_ - 1) / least_, sample);
  }

  MeasuredWork validations(std::int64_t most) {
    if (!training_.validation_samples || most == 0) return {};
    const Batch samples = first_units(training_.validation_samples,
                                      validation_order(step_, training_.validation->size),
                                      kMostAtOnce, check_of(*training_.validation_samples));
    StepPlan whole = execution_.plan();
    whole.micro_batch = 0;
    return of_sizes(most, [&](std::int64_t size) {
      const std::size_t begin = recording_.place();
      {
        const ScopedPhase phase(StepPhase::kEvaluate);
        measure(step_, execution_.network(), owned(samples.part(0, size)), whole);
      }
      return recording_.since(begin);
    });
  }

 private:
  std::shared_ptr<torch::nn::Module> built() const {
    if (context_.node().ranks.size > 1) {
      throw StageError(ErrorCode::kOptionConflict,
                       "a network that needs tensor values is planned by running real steps, which "
                       "requires a single process")
          .in_stage("/device")
          .at("/count")
          .with_help("set device.count: 1");
    }
    auto network = training_.model.build(training_.network_data, context_.node().seed);
    network->to(device_);
    return network;
  }
  std::function<void(const Batch&)> check_of(const Dataset& data) const {
    return [&](const Batch& batch) { refuse_bad_unit(step_, data, batch); };
  }
  std::int64_t parts() const { return is_cut_ ? 2 : 1; }
  std::string in_network(const std::string& name) const {
    return training_.options.model_stage + "." + name;
  }

  template <typename Run>
  MeasuredWork of_sizes(std::int64_t most, Run run_one) {
    MeasuredWork work;
    for (std::int64_t size = least_; size <= std::max(least_, std::min(most, kMostAtOnce));
         ++size) {
      try {
        work.add(size, run_one(size));
      } catch (const std::exception& error) {
        if (work.empty() || !is_out_of_memory(error, device_)) throw;
        break;
      }
    }
    return work;
  }

  Batch owned(const Batch& batch) {
    Batch copy = copied(batch);
    for (const auto& [name, tensor] : copy.tensors()) recording_.own(tensor, Owner::kInput, name);
    return copy;
  }

  RecordedWork run(std::int64_t size, std::int64_t parts) {
    if (context_.canceled()) throw runner::Canceled{};
    StepPlan plan = execution_.plan();
    plan.micro_batch = is_cut_ ? size : 0;
    execution_.replace_plan(std::move(plan));
    const Batch samples = samples_.part(0, size * parts);
    const std::size_t begin = recording_.place();
    {
      std::optional<Batch> batch = owned(samples);
      const StepSnapshot before(*network_, device_);
      try {
        const StepExecution::Computed computed =
            execution_.compute(*batch, {context_.node().seed, ++number_});
        for (const auto& item : network_->named_parameters())
          recording_.own(item.value().grad(), Owner::kGradient, in_network(item.key()));
        if (!device_.is_cpu()) batch.reset();
        execution_.commit(computed);
      } catch (...) {
        before.restore();
        throw;
      }
    }
    for (const auto& [name, tensor] : execution_.state_on_device())
      recording_.own(tensor, Owner::kOptimizerState, in_network(name));
    return recording_.since(begin);
  }

  const TrainingToPlan& training_;
  const TrainingStep& step_;
  runner::PlanContext& context_;
  const at::Device device_;
  const bool is_cut_;
  const std::int64_t least_;
  const Batch samples_;  // created before the recording
  BlockRecording recording_;
  const std::shared_ptr<torch::nn::Module> network_;
  StepExecution execution_;
  std::int64_t number_ = 0;
};

/// Adds the buffers that batches of `units` are copied to (batch_buffers.h). Measured steps have
/// none: their batches are smaller.
void keep_batches(MeasuredHistory& history, const TrainingToPlan& training, std::int64_t units) {
  const Batch batch = training.step.arrange(meta_batch(training.data, units), BatchUse::kTraining);
  for (int buffer = 0; buffer < 2; ++buffer) {
    for (const auto& [name, tensor] : batch.tensors())
      history.keep({.bytes = static_cast<std::int64_t>(tensor.nbytes()),
                    .owner = Owner::kInput,
                    .name = name,
                    .shape = tensor.sizes().vec(),
                    .dtype = tensor.scalar_type()});
  }
}

}  // namespace

const MeasuredTraining::Way& MeasuredTraining::measured(const TrainingToPlan& training,
                                                        const MemoryPolicy& policy, bool is_cut,
                                                        runner::PlanContext& context) {
  if (failed_) std::rethrow_exception(failed_);
  const auto known = std::ranges::find_if(ways_, [&](const Way& way) {
    return way.is_cut == is_cut && are_one_way(way.policy, policy);
  });
  if (known != ways_.end()) return *known;
  if (is_closed_ || !is_offered(policy, training.policy)) {
    throw StageError(ErrorCode::kOptionConflict, "this way of computing a step was not measured")
        .in_stage(policy.pointer);
  }
  check_may_measure(why_, context);
  Way way{.policy = policy, .is_cut = is_cut};
  const auto run = [&] {
    const std::int64_t units = std::min(training.options.batch_size, training.data.size);
    RealSteps steps(training, policy, is_cut, context);
    way.kept = steps.kept();
    way.step = steps.steps(units);
    way.per_unit_of_batch = steps.per_unit_of_batch(way.step);
    way.validation = steps.validations(training.validation ? training.validation->size : 0);
    way.weights = bytes_of(weights(steps.network()));
    way.state = bytes_of(steps.execution().state());
    way.offloaded = steps.execution().optimizer().offloaded_bytes();
  };
  try {
    do_for_plan(policy, context, run);
  } catch (const StageError& error) {
    if (error.code == ErrorCode::kStageFailed) failed_ = std::current_exception();
    throw;
  } catch (const std::exception&) {
    failed_ = std::current_exception();
    throw;
  }
  return ways_.emplace_back(std::move(way));
}

TracedPolicy MeasuredTraining::plan(const TrainingToPlan& training, const MemoryPolicy& policy,
                                    const Backend& backend, runner::PlanContext& context) {
  const auto outline = training.model.outline(training.network_data);
  const StepPlan step_plan = assemble_step(training.step, *outline, training.data.size,
                                           training.options, policy, at::kMeta, context)
                                 .plan();
  const std::int64_t units = std::min(training.options.batch_size, training.data.size),
                     rest = training.loader.drop_last ? 0 : training.data.size % units;
  const std::int64_t part =
      step_plan.micro_batch > 0 ? std::min(step_plan.micro_batch, units) : units;
  const bool is_cut = part < units;
  if (is_cut && step_plan.two_pass) {
    throw StageError(
        ErrorCode::kOptionConflict,
        "a two-pass step cannot be planned by running real steps, and a dry run fails: " + why_)
        .at("/two_pass")
        .in_stage(policy.pointer)
        .with_help(
            "set memory.two_pass: off and use a smaller batch, or avoid code that needs tensor "
            "values");
  }
  MemoryPolicy as_run = policy;
  as_run.two_pass = training.policy.two_pass;  // has no effect on a whole batch
  const Way& way = measured(training, as_run, is_cut, context);

  MeasuredHistory history;
  for (const TracedStorage& storage : way.kept) history.keep(storage);
  if (backend.device != at::kCPU) keep_batches(history, training, units);
  const auto add_step = [&](std::int64_t of_step) {
    const std::int64_t in_two_parts = std::min(of_step, 2 * part);
    const std::int64_t more = is_cut ? of_step - in_two_parts : 0;
    history.add(way.step.at(std::min(part, of_step)), more * way.per_unit_of_batch);
  };
  add_step(units);
  if (rest > 0) add_step(rest);
  const std::size_t last_step = history.events();
  add_step(units);
  if (!way.validation.empty()) {
    history.add(way.validation.at(
        std::min(validation_batch_size(training.step, step_plan, training.options.batch_size),
                 training.validation->size)));
  }
  const auto load = [&](std::int64_t bytes, const std::string& from) {
    history.pass({.bytes = bytes,
                  .owner = Owner::kBuffer,
                  .name = "of " + from,
                  .phase = StepPhase::kCheckpointLoad});
  };
  if (backend.device == at::kCPU) {
    if (context.node().resuming) load(way.weights + way.state, "the checkpoint");
    if (training.options.keep != Keep::kLast && training.validation)
      load(way.weights, "the best checkpoint");
  }
  runner::MemoryPlan plan = history.plan(last_step, part, backend, policy.allocator);
  plan.measured = why_;
  plan.step = to_json(step_plan);
  const auto [traffic, allocations] = way.step.allocations(part);
  const double pairs = is_cut ? static_cast<double>((units + part - 1) / part) / 2 : 1;
  plan.traffic = pairs * traffic;
  plan.operations = static_cast<std::int64_t>(pairs * allocations);
  plan.moved = 2 * static_cast<double>(way.offloaded);
  return {std::move(plan), {}};
}

}  // namespace stages
