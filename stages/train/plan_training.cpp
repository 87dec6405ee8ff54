#include "stages/train/plan_training.h"

#include <algorithm>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/numerics/running_statistics.h"
#include "stages/plan/gpu_backend.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/real_steps.h"
#include "stages/plan/recorder.h"
#include "stages/plan/repetition.h"
#include "stages/plan/step_profile.h"
#include "stages/plan/summarize.h"
#include "stages/tensor/module_names.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/gradient.h"
#include "stages/train/schedule.h"
#include "stages/train/sharded_network.h"
#include "stages/train/shared_traces.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_plan.h"
#include "stages/train/step_snapshot.h"
#include "stages/train/validation.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

/// Returns the largest number of units in an optimizer step.
std::int64_t units_of(const TrainingToPlan& training) {
  return std::min(training.options.batch_size, training.data.size);
}

/// Returns the sizes of the batches to trace. The last is a whole batch: by then the optimizer
/// state is allocated, and the allocator has gaps from the shorter batch at the end of an epoch,
/// which has tensors of different sizes.
///
/// With CUDA graphs, these steps only warm up. They are followed by a step for which the graph is
/// recorded, and by batches of all sizes, since a shorter batch does not use the graph's memory.
std::vector<std::int64_t> traced_batches(const TrainingToPlan& training,
                                         const MemoryPolicy& policy) {
  const std::int64_t units = units_of(training),
                     rest = training.loader.drop_last ? 0 : training.data.size % units;
  std::vector<std::int64_t> batches =
      rest > 0 ? std::vector{units, rest, units} : std::vector{units, units};
  if (policy.cuda_graphs) batches.push_back(units);
  if (policy.cuda_graphs && rest > 0) batches.insert(batches.end(), {rest, units});
  return batches;
}

/// Executes a training run on the Meta device under one policy.
class TracedTraining {
 public:
  TracedTraining(const TrainingToPlan& training, const MemoryPolicy& policy, const Backend& backend,
                 Repeated micro_batches, const std::shared_ptr<RecordedParts>& parts,
                 runner::PlanContext& context)
      : training_(training),
        policy_(policy),
        backend_(backend),
        context_(context),
        parts_(parts),
        trace_(backend, micro_batches, parts),
        workspaces_(library_workspaces(trace_)),
        own_step_(training.step_under ? training.step_under(policy) : nullptr),
        step_(own_step_ ? *own_step_ : training.step),
        network_(built_for_rank(training.model, training.network_data, training.options, policy,
                                context.node().ranks,
                                [&] { return training.model.outline(training.network_data); })),
        names_(*network_, training.options.model_stage) {}

  TracedPolicy run() {
    StepExecution execution =
        assemble_step(step_, *network_, training_.data.size, options_of_dry_run(training_.options),
                      policy_, at::kMeta, context_);
    own_network();
    execution.divide_parameters();
    if (backend_.device != at::kCPU) copy_ahead(execution);
    std::size_t last_step = 0, end_of_step = 0;  // for steps that compute their micro-batches
    double flops = 0;                            // per step
    std::int64_t operations = 0;                 // per step
    std::int64_t step = 0;
    for (const std::int64_t size : traced_batches(training_, policy_)) {
      const bool computes = !execution.graph() || !execution.graph()->replays();
      const std::size_t before = events_so_far();
      const double flops_before = trace_.flops();
      const std::int64_t operations_before = trace_.launches();
      make_step(execution, size, ++step);
      operations = trace_.launches() - operations_before;
      if (!computes) continue;
      last_step = before;
      flops = trace_.flops() - flops_before;
      end_of_step = events_so_far();
    }
    before_.reset();
    if (training_.options.swa || training_.options.average_best > 0)
      renew_statistics(execution, step);
    if (training_.validation) validate_on_meta(execution);
    end(execution);
    const RecordedWork work = trace_.finish();
    if (parts_) parts_->keep_whole_batches();
    runner::MemoryPlan result =
        summarize(work, trace_.flops(), last_step, backend_, policy_.allocator);
    result.step = to_json(execution.plan());
    result.flops = flops;
    result.operations = operations;
    result.traffic = traffic(work, last_step, end_of_step);
    result.moved = 2 * static_cast<double>(execution.optimizer().offloaded_bytes());
    if (const StepGraph* const graph = execution.graph()) {
      result.terms.push_back({.name = "cuda_graph",
                              .bytes = graph->pool_bytes(),
                              .note = "in live: the graph's own memory, which no other work uses"});
    }
    std::vector<std::string> blocks = blocks_of(*network_);
    for (std::string& path : blocks) path = in_network(path);
    return {std::move(result), profile(work, last_step, blocks)};
  }

 private:
  /// Returns the number of events, without copying them as MemoryTrace::events() does.
  static std::size_t events_so_far() { return living_recorder()->place().events; }

  /// Returns the bytes written between two events: the size of everything allocated there.
  static double traffic(const RecordedWork& work, std::size_t first_event, std::size_t end_event) {
    double bytes = 0;
    for (std::size_t i = first_event; i < end_event; ++i) {
      const TraceEvent& event = work.events[i];
      bytes += event.is_birth ? static_cast<double>(work.storages[event.storage].bytes) : 0;
    }
    return bytes;
  }

  std::string in_network(const std::string& name) const {
    return training_.options.model_stage + "." + name;
  }

  void own_network() {
    parameters_ = network_->named_parameters();
    for (const auto& item : parameters_) {
      if (has_memory(item.value()))
        trace_.own(item.value(), Owner::kParameter, in_network(item.key()));
    }
    for (const auto& item : network_->named_buffers())
      trace_.own(item.value(), Owner::kBuffer, in_network(item.key()));
  }

  /// A batch of training samples in a GPU machine's host memory.
  Batch batch_on_host(std::int64_t units) const {
    const ScopedUntraced on_the_host;
    return meta_batch(training_.data, units);
  }

  void copy_ahead(StepExecution& execution) {
    BatchBuffers& batches = execution.copy_ahead(batch_on_host(units_of(training_)));
    batches.allocate();
    for (const NamedTensors& buffer : batches.buffers()) {
      for (const auto& [name, tensor] : buffer) trace_.own(tensor, Owner::kInput, name);
    }
  }

  Batch make_batch(const DatasetDescription& data, std::int64_t units) {
    Batch batch = meta_batch(data, units);
    for (const auto& [name, tensor] : batch.tensors()) trace_.own(tensor, Owner::kInput, name);
    return batch;
  }

  void make_step(StepExecution& execution, std::int64_t units, std::int64_t step) {
    const Batch batch =
        backend_.device == at::kCPU ? make_batch(training_.data, units) : batch_on_host(units);
    if (before_) before_->save(execution.failed());
    else before_.emplace(*network_, at::kMeta);
    at::Tensor generators;
    if (backend_.device == at::kCPU) {
      generators = torch::empty({before_->generator_bytes()},
                                at::TensorOptions(at::kByte).device(at::kMeta));
      trace_.own(generators, Owner::kBuffer, "the random number generator's state");
    }
    StepExecution::Computed computed = execution.compute(batch, {context_.node().seed, step});
    for (const auto& item : parameters_) {
      if (item.value().grad().defined())
        trace_.own(item.value().grad(), Owner::kGradient, in_network(item.key()));
    }
    execution.commit(computed);
    if (!execution.failed()) before_.reset();
    // With a GPU, the host reads them only after the next step has been computed.
    if (backend_.device != at::kCPU) unread_ = std::move(computed.histograms);
    for (const auto& [name, tensor] : execution.state_on_device())
      trace_.own(tensor, Owner::kOptimizerState, in_network(name));
  }

  /// Recomputes the running statistics for averaged weights, in the largest batches.
  void renew_statistics(const StepExecution& execution, std::int64_t step) {
    if (!running_statistics_of(*network_).are_collected) return;
    const ScopedPhase phase(StepPhase::kEvaluate);
    const ScopedNewStatistics renewed(*network_);
    const Batch batch = make_batch(training_.data, units_of(training_));
    const PreparedNetwork& network = execution.network();
    runner::RankOfRun ranks = context_.node().ranks;
    ranks.peers = nullptr;
    see_in_training(step_, network, network.placed(step_.arrange(batch, BatchUse::kTraining)),
                    execution.plan(), {context_.node().seed, step}, ranks);
  }

  void validate_on_meta(const StepExecution& execution) {
    const ScopedPhase phase(StepPhase::kEvaluate);
    const StepPlan& plan = execution.plan();
    const std::int64_t units =
        std::min(validation_batch_size(step_, plan, training_.options.batch_size),
                 training_.validation->size);
    if (units > 0)
      measure(step_, execution.network(), make_batch(*training_.validation, units), plan);
  }

  void end(StepExecution& execution) {
    save(execution);
    const bool is_built_whole =
        !is_built_in_shards(training_.model, policy_, context_.node().ranks);
    if (context_.node().resuming && is_built_whole) {
      const ScopedPhase phase(StepPhase::kCheckpointLoad);
      execution.join_parameters();
    }
    resume(execution);
    if (!execution.plan().shards_parameters()) keep_weights();
  }

  /// A checkpoint is written tensor by tensor, each in element order. Tensors of other ranks are
  /// received one at a time.
  void save(const StepExecution& execution) {
    const ScopedPhase phase(StepPhase::kCheckpointSave);
    std::optional<Batch> next;  // already read when the ranks agree to save
    if (execution.plan().shards_optimizer()) next = make_batch(training_.data, units_of(training_));
    for (const NamedTensors& saved : {weights(*network_), execution.state_on_device()}) {
      for (const auto& [name, tensor] : saved) {
        if (!has_memory(tensor)) torch::empty_like(tensor);
        else if (!tensor.is_contiguous()) tensor.detach().contiguous();
      }
    }
    for (const at::Tensor& parameter : execution.optimizer().parameters_elsewhere())
      torch::empty_like(parameter);
  }

  /// Allocates a copy of this rank's part of `saved`, as read from disk.
  std::vector<at::Tensor> read(const NamedTensors& saved, const std::string& from) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : saved) {
      if (!has_memory(tensor)) continue;
      tensors.push_back(torch::empty_like(tensor));
      trace_.own(tensors.back(), Owner::kBuffer, in_network(name) + " of " + from);
    }
    return tensors;
  }

  /// A training run is resumed before its parameters are divided.
  void resume(const StepExecution& execution) {
    if (!context_.node().resuming || backend_.device != at::kCPU) return;
    const ScopedPhase phase(StepPhase::kCheckpointLoad);
    const auto model = read(weights(*network_), "the checkpoint");
    read(execution.state(), "the checkpoint");
  }

  /// The weights to keep are read from disk while the current weights are still in memory.
  void keep_weights() {
    if (training_.options.keep == Keep::kLast || !training_.validation ||
        backend_.device != at::kCPU)
      return;
    const ScopedPhase phase(StepPhase::kCheckpointLoad);
    const auto best = read(weights(*network_), "the best checkpoint");
    if (training_.options.average_best == 0) return;
    const auto mean = read(weights(*network_), "the average");
    read(weights(*network_), "the next average");
  }

  const TrainingToPlan& training_;
  const MemoryPolicy& policy_;
  const Backend backend_;
  runner::PlanContext& context_;
  const std::shared_ptr<RecordedParts> parts_;  // may be null
  MemoryTrace trace_;
  const std::vector<at::Tensor> workspaces_;
  const std::unique_ptr<TrainingStep> own_step_;  // null: the step is the same under every policy
  const TrainingStep& step_;
  const std::shared_ptr<torch::nn::Module> network_;
  const ScopedModuleNames names_;
  torch::OrderedDict<std::string, at::Tensor> parameters_;  // of the network
  std::optional<StepSnapshot> before_;                      // the latest step
  std::optional<GradientHistograms> unread_;                // histograms of the latest step
};

/// Adds the memory for the scores of a whole validation pass: the rows of all batches and their
/// concatenation.
void add_kept_in_validation(runner::MemoryPlan& plan, const TrainingToPlan& training) {
  const std::int64_t bytes = training.step.bytes_kept_in_validation();
  if (bytes == 0 || !training.validation) return;
  add_term(plan, {"validation", 2 * bytes * training.validation->size,
                  "outputs and labels of all validation samples"});
}

/// Returns the trace of training under `policy`; reuses an earlier trace of this or of another
/// training run if both are traced in the same way.
TracedPolicy traced(const TrainingToPlan& training, const MemoryPolicy& policy,
                    const Backend& backend, Repeated micro_batches, SearchTraces& search,
                    runner::PlanContext& context) {
  const auto trace = [&] {
    if (!training.measured || training.measured->why().empty()) {
      try {
        return TracedTraining(training, policy, backend, micro_batches, search.parts_under(policy),
                              context)
            .run();
      } catch (const std::exception& error) {
        const auto* refused = dynamic_cast<const runner::StageError*>(&error);
        const bool is_conflict = refused && refused->code == runner::ErrorCode::kOptionConflict;
        if (!training.measured || is_conflict) throw;
        training.measured->set_why(why_not_dry());
      }
    }
    return training.measured->plan(training, policy, backend, context);
  };
  const std::optional<std::string> structure = training.step.structure();
  const bool is_shared = training.shared_model && structure && !training.step_under;
  TracedAs as{.model = training.shared_model,
              .step = structure.value_or(""),
              .options = training.options,
              .policy = policy,
              .backend = backend,
              .micro_batches = micro_batches,
              .resumes = context.node().resuming,
              .data = training.data,
              .network_data = training.network_data,
              .batches = traced_batches(training, policy),
              .validation = {}};
  if (training.validation) {
    as.validation = *training.validation;
    // An upper bound for the result of validation_batch_size().
    as.validated = std::min(std::max(training.options.batch_size, policy.micro_batch.value_or(0)),
                            training.validation->size);
  }
  return (is_shared ? context.shelf().of<SharedTraces>() : search.traces).of(as, trace);
}

}  // namespace

PolicySearch policy_search(const TrainingToPlan& training, std::int64_t budget,
                           runner::PlanContext& context, Repeated micro_batches) {
  register_meta_kernels();
  const TrainerOptions& options = training.options;
  const Backend backend = planned_backend(context);
  return {
      .written = training.policy,
      .batch = {.size = options.batch_size,
                .units = std::min(options.batch_size, training.data.size),
                .accumulated_by = options.accumulated_by,
                .has_loss_forms = std::ranges::any_of(training.step.terms(), &LossTerm::has_forms)},
      .budget = budget,
      .has_host = backend.device != at::kCPU,
      .has_ranks = context.node().ranks.size > 1,
      .trace =
          [&training, &context, backend, micro_batches,
           search = std::make_shared<SearchTraces>()](MemoryPolicy policy) {
            if (context.node().ranks.size == 1) policy.sharding = Sharding::kNone;
            TracedPolicy result =
                traced(training, policy, backend, micro_batches, *search, context);
            add_read_ahead(result.plan, backend.device, training.data, training.loader,
                           units_of(training));
            add_kept_in_validation(result.plan, training);
            add_held_memory(result.plan, context, {training.kept_data, training.kept_validation});
            return result;
          },
      .seconds = [backend](const StepWork& work) { return predicted_seconds(work, backend); }};
}

namespace {

/// Drops alternatives that would change the parts within which a loss compares samples. The recipe
/// declares these parts, so different parts would mean a different loss.
void keep_to_declared_parts(const TrainingStep& step, const CutBatch& batch,
                            std::vector<runner::PlanAlternative>& all) {
  const auto compares_parts = [](const LossTerm& term) { return term.samples_in_group > 0; };
  if (batch.accumulated_by.empty() || std::ranges::none_of(step.terms(), compares_parts)) return;
  const std::string batch_size = option_of(batch.accumulated_by, "batch_size=");
  std::erase_if(all, [&](const runner::PlanAlternative& one) {
    return std::ranges::any_of(
        one.overrides, [&](const std::string& text) { return text.starts_with(batch_size); });
  });
}

}  // namespace

PlannedStep plan_training(const TrainingToPlan& training, runner::PlanContext& context,
                          Repeated micro_batches) {
  training_length(training.data.size, training.loader.drop_last, training.options);
  const PolicySearch search = policy_search(training, 0, context, micro_batches);
  PlannedStep planned = plan(search, training.options.model_stage, context);
  keep_to_declared_parts(training.step, search.batch, planned.plan.alternatives);
  return planned;
}

namespace {

using runner::ErrorCode;
using runner::StageError;

std::int64_t steps_per_epoch(std::int64_t size, bool drops_last, const TrainerOptions& options) {
  const std::int64_t batch_size = options.batch_size;
  const std::int64_t whole = size / batch_size;
  const std::int64_t steps = size % batch_size != 0 && !drops_last ? whole + 1 : whole;
  if (steps > 0) return steps;
  throw StageError(ErrorCode::kTooFewSamples, "the training data has " + std::to_string(size) +
                                                  " samples, too few for a batch of " +
                                                  std::to_string(batch_size))
      .at("/" + options.batch_option)
      .with_help(size == 0   ? ""
                 : size == 1 ? "add more samples"
                             : "lower " + options.batch_option + ", or set drop_last: false");
}

}  // namespace

LoaderOptions training_loader(const Dataset& train, const TrainingStep& step,
                              std::int64_t batch_size) {
  LoaderOptions options = train.loader();
  const std::int64_t rest = train.describe().size % batch_size;
  options.drop_last |= rest > 0 && rest < least_units(step);
  return options;
}

std::int64_t training_length(std::int64_t size, bool drops_last, const TrainerOptions& options) {
  const std::int64_t steps = options.epochs * steps_per_epoch(size, drops_last, options);
  check_length(options.schedule, steps);
  return steps;
}

}  // namespace stages
