#include "stages/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/stage/run_layout.h"
#include "runner/stage/stage.h"
#include "runner/disk/storage.h"
#include "stages/checkpoint/checkpoints.h"
#include "stages/artifact/data_description.h"
#include "stages/random/generator_state.h"
#include "stages/artifact/loader.h"
#include "stages/machine/counting_allocator.h"
#include "stages/memory/memory_budget.h"
#include "stages/machine/memory_meter.h"
#include "stages/memory/out_of_memory.h"
#include "stages/numerics/precision_module.h"
#include "stages/train/step_observer.h"
#include "stages/numerics/tf32.h"
#include "stages/train/early_stopping.h"
#include "stages/train/epoch_so_far.h"
#include "stages/train/frozen_base.h"
#include "stages/train/memory_log.h"
#include "stages/train/owned_tensors.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/scheduler.h"
#include "stages/train/step_error.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_snapshot.h"
#include "stages/train/training_log.h"
#include "stages/train/validation.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::int64_t kMaxSkipped = 100;  // by then the scale has shrunk by 2^100

/// What the weights of a checkpoint are said to be.
std::map<std::string, std::string> about(const DatasetDescription& data, std::int64_t epoch, std::int64_t step) {
  std::map<std::string, std::string> texts = describe_data(source_of(data));
  texts["format"] = "pt";
  texts["epoch"] = std::to_string(epoch);
  texts["step"] = std::to_string(step);
  return texts;
}

std::int64_t steps_per_epoch(const Dataset& data, std::int64_t size, std::int64_t batch_size) {
  const std::int64_t whole = size / batch_size;
  const bool rest = size % batch_size != 0 && !data.loader().drop_last;
  const std::int64_t steps = rest ? whole + 1 : whole;
  if (steps > 0) return steps;
  throw StageError(ErrorCode::kTooFewSamples, "the training data has " + std::to_string(size) +
                                                  " samples, which make no batch of " + std::to_string(batch_size))
      .at("/batch_size")
      .with_help(size == 0 ? "" : "lower batch_size, or set drop_last: false");
}

class Training {
 public:
  Training(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
           const TrainerOptions& options, const MemoryPolicy& policy, runner::RunContext& context)
      : step_(step),
        network_(network),
        data_(data),
        options_(options),
        policy_(policy),
        context_(context),
        observer_(dynamic_cast<StepObserver*>(context.observer())),
        device_(std::string(context.device())),
        description_(data.train->describe()),
        planned_steps_(options.epochs * steps_per_epoch(*data.train, description_.size, options.batch_size)),
        epochs_(context.smoke() ? 1 : options.epochs),
        steps_(context.smoke() ? std::min<std::int64_t>(observer_ ? observer_->steps() : 2, planned_steps_)
                               : planned_steps_),
        execution_(step, network, divide_parameters(network, options.optimizer, options.parameter_groups),
                   make_step_plan(step, policy, std::min(options.batch_size, description_.size),
                                  choose_numerics(policy.numerics(), network, options.model_stage, context),
                                  activation_checkpointing_for(network, options.model_stage,
                                                               policy.activation_checkpointing, policy.pointer)),
                   options.gradient_clip_norm, device_),
        tf32_(execution_.plan().numerics.tf32),
        scheduler_(options.schedule, execution_.optimizer().learning_rates(), planned_steps_, options.higher_is_better),
        stopping_(options.higher_is_better, options.patience),
        meter_(device_),
        log_(context, {epochs_, steps_, options.log_every, unit(), meter_.budget(), [this] { return meter_.in_use(); }},
             wall_seconds),
        memory_(context, {device_, options.log_every, steps_, policy.empty_cache_every, options.planned_peak},
                [this](std::int64_t live) {
                  return bytes_by_owner(owned_tensors(network_, execution_.optimizer().state()), live);
                }),
        checkpoints_(runner::NodeLayout(context.folder()).checkpoints(),
                     {options.checkpoint.keep_last, options.checkpoint.keep_best, options.higher_is_better}),
        save_clock_(options.checkpoint.every, wall_seconds()) {
    check_length(options.schedule, planned_steps_);
    set_layout(network, execution_.plan().numerics.layout);
    if (policy.two_pass && !execution_.plan().two_pass)
      context.say("two_pass has no effect: micro_batch does not cut the batch");
  }

  TrainingResult run() {
    try {
      return run_epochs();
    } catch (const std::exception& error) {
      undo_unwritten();
      if (is_out_of_memory(error)) throw explained(error);
      throw;
    } catch (...) {
      undo_unwritten();
      throw;
    }
  }

 private:
  /// A step whose numbers the host has not looked at.
  struct Pending {
    StepPlace place;
    StepNumbers numbers;
    std::vector<Rates> rates;
    StepSnapshot before;
    bool written = false;  // its commit has run, and nothing is known to have kept it from the weights
  };

  TrainingResult run_epochs() {
    if (context_.resuming()) resume();
    if (observer_) show("start", 0, weights(network_));
    memory_.begin();
    while (epoch_ < epochs_ && !stopping_.exhausted()) {
      run_epoch();
      finish_epoch();
    }
    memory_.end(done_);
    return kept();
  }

  void run_epoch() {
    Loader loader(data_.train, shuffled_order(description_.size, context_.seed(), epoch_), options_.batch_size, epoch_,
                  data_.train->loader().drop_last, batch_);
    log_.begin_epoch();
    while (done_ < steps_) {
      heed_requests();
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      run_step(*batch);
      batch_ = loader.position();
    }
    settle(0);
    if (loader.skipped() > 0) {
      context_.say("samples skipped because they cannot be read: " + std::to_string(loader.skipped()));
    }
    if (so_far_.means.weight > 0) return;
    throw StageError(ErrorCode::kTooFewSamples, "no sample of the training data could be read");
  }

  /// Between two steps.
  void heed_requests() {
    if (context_.cancelled()) stop();
    if (context_.take_save_request() || save_clock_.is_due(done_, wall_seconds())) save();
  }

  [[noreturn]] void stop() {
    if (done_ > 0) save();
    throw runner::Cancelled{};
  }

  void finish_epoch() {
    const std::optional<Means> validation = measure();
    log_.end_epoch(so_far_.last, so_far_.means, so_far_.skipped_steps, validation);
    memory_.end_epoch(so_far_.last.epoch, so_far_.last.step);
    ++epoch_;
    batch_ = 0;
    so_far_ = {.last = so_far_.last};
    const std::optional<double> metric = validation ? std::optional(validation->at(options_.monitor)) : std::nullopt;
    if (metric) scheduler_.observe(*metric);
    const bool is_best = metric && stopping_.observe(epoch_, *metric);
    const bool is_last = epoch_ == epochs_ || stopping_.exhausted();
    if (is_best || is_last || save_clock_.is_due_after_epoch(epoch_)) save(metric);
    if (epoch_ < epochs_ && is_last) {
      context_.say("stopped after epoch " + std::to_string(epoch_) + ": no better validation " + options_.monitor +
                   " since epoch " + std::to_string(stopping_.best_epoch().value_or(0)));
    }
  }

  void run_step(const Batch& batch) {
    if (runner::reach(runner::Milestone::kStep)) throw std::runtime_error("this step was to fail");
    refuse_bad_unit(step_, *data_.train, batch);
    if (observer_) show("batch", done_ + 1, batch.tensors());
    auto [computed, before] = compute_with_replays(batch);
    const std::vector<Rates> rates = scheduler_.at(done_, epoch_);
    pending_.push_back({{epoch_ + 1, ++done_, batch.units(), execution_.plan(), batch.indices},
                        std::move(computed.numbers),
                        rates,
                        std::move(before)});
    settle(device_.is_cpu() || observer_ ? 0 : 1);
    if (observer_) show_gradient();

    // From here on nothing is allocated and nothing can fail.
    execution_.commit(computed, rates);
    if (!pending_.empty()) pending_.back().written = true;
    if (observer_) show("weights", done_, weights(network_));
    memory_.end_step(done_);
  }

  /// The step's first half, once more where memory ran out and a replay is left; and what was before it.
  std::pair<StepExecution::Computed, StepSnapshot> compute_with_replays(const Batch& batch) {
    std::optional<StepSnapshot> before;
    for (std::int64_t replay = 1;; ++replay) {
      try {
        if (!before) before.emplace(network_, device_);
        StepExecution::Computed computed =
            execution_.compute(batch, {context_.seed(), done_ + 1}, [this] { memory_.end_micro_batch(); });
        return {std::move(computed), std::move(*before)};
      } catch (const std::exception& error) {
        if (before) before->restore();
        if (!is_out_of_memory(error) || replay > options_.replays) throw;
        if (auto* const allocator = CountingAllocator::innermost()) allocator->take_refused();
      } catch (...) {
        if (before) before->restore();
        throw;
      }
      context_.say("step " + std::to_string(done_ + 1) + " ran out of memory and is repeated: " +
                   std::to_string(replay) + " of " + std::to_string(options_.replays));
    }
  }

  /// In words, after a table of what was live.
  StageError explained(const std::exception& error) const {
    auto* const allocator = CountingAllocator::innermost();
    OutOfMemory what{.step = done_ + 1,
                     .refused = allocator ? allocator->take_refused() : std::nullopt,
                     .owned = {},
                     .micro_batch = execution_.plan().micro_batch,
                     .batch_size = options_.batch_size,
                     .can_be_cut = !step_.mixes_samples(),
                     .policy = policy_.pointer,
                     .has_own_budget = policy_.budget || policy_.memory_fraction < 1,
                     .cause = error.what()};
    for (const OwnedTensor& one : owned_tensors(network_, execution_.optimizer().state()))
      what.owned.push_back(
          {one.owner, one.name, one.tensor.storage().data(), static_cast<std::int64_t>(one.tensor.storage().nbytes())});
    for (const std::string& line : live_table(what)) context_.say(line);
    return stages::explained(what);
  }

  /// Takes back the earliest step that has not reached the weights, and with it those that came after.
  void undo_unwritten() const {
    const auto step = std::ranges::find(pending_, false, &Pending::written);
    if (step != pending_.end()) step->before.restore();
  }

  /// Looks at steps until `allowed` are left unseen.
  void settle(std::size_t allowed) {
    while (pending_.size() > allowed) {
      Pending& step = pending_.front();
      const bool written = std::exchange(step.written, false);  // a step that is refused here never was
      refuse_not_finite(step.numbers, step.place, *data_.train);
      skipped_in_a_row_ = step.numbers.skipped() ? skipped_in_a_row_ + 1 : 0;
      if (skipped_in_a_row_ == kMaxSkipped) refuse_endless_overflow(step.place, *step.numbers.loss_scale());
      step.written = written;
      StepRecord& last = so_far_.last;
      last = {step.place.epoch,          step.place.step,
              step.place.units,          step.rates[0].learning_rate,
              step.numbers.means(),      step.numbers.gradient_norm(),
              step.numbers.loss_scale(), step.numbers.skipped()};
      for (std::size_t group = 1; group < step.rates.size(); ++group)
        last.group_rates.emplace_back(execution_.optimizer().groups()[group], step.rates[group].learning_rate);
      so_far_.means.add(last.means);
      so_far_.skipped_steps += last.skipped;
      log_.step(last);
      pending_.pop_front();
    }
  }

  std::optional<Means> measure() {
    const std::int64_t epoch = epoch_ + 1;
    if (!data_.validation || (epoch % options_.validate_every != 0 && epoch != epochs_)) return {};
    ValidationOptions options;
    options.epoch = epoch_;
    // A loss over the whole batch is measured over batches as large as in training.
    const StepPlan& plan = execution_.plan();
    const bool cut = plan.micro_batch > 0 && !plan.two_pass;
    options.batch_size = cut ? plan.micro_batch : options_.batch_size;
    options.micro_batch = plan.micro_batch;
    options.device = device_;
    options.numerics = plan.numerics;
    if (context_.smoke()) options.batches = 2;
    options.before_batch = [&](std::int64_t batch, std::int64_t batches) {
      if (context_.cancelled()) stop();
      log_.validated_batch(epoch, batch, batches);
    };
    return validate(step_, network_, data_.validation, options);
  }

  void save(std::optional<double> metric = {}) {
    settle(0);
    if (metric && !std::isfinite(*metric)) metric.reset();
    if (saved_ == std::tuple(done_, epoch_, batch_)) return;
    const std::int64_t metrics = context_.flush();
    saved_folder_ = checkpoints_.save(state(metric, metrics));
    saved_ = {done_, epoch_, batch_};
    save_clock_.saved(done_, wall_seconds());
  }

  TrainingState state(const std::optional<double>& metric, std::int64_t metrics) const {
    TrainingState state;
    state.model = weights(network_);
    state.optimizer = execution_.optimizer().state();
    state.step = done_;
    state.epoch = epoch_;
    state.batch = batch_;
    state.metrics = metrics;
    state.seed = context_.seed();
    state.threads = at::get_num_threads();
    state.recipe_hash = context_.recipe_hash();
    state.metric = metric;
    state.about = about(description_, so_far_.last.epoch, done_);
    if (const std::string base = base_of(network_); !base.empty()) state.about["base"] = base;
    if (const GradScaler* scaler = execution_.scaler()) {
      const NamedTensors scaling = scaler->state();
      state.scaler = {{"scale", scaling.at("scale").item<double>()},
                      {"growth_tracker", scaling.at("growth_tracker").item<std::int64_t>()},
                      {"skipped_in_a_row", skipped_in_a_row_}};
    }
    state.random = generator_state(device_);
    state.schedule = scheduler_.state();
    state.stopping = stopping_.state();
    state.plan = to_json(execution_.plan());
    state.epoch_so_far = to_json(so_far_);
    return state;
  }

  void resume() {
    const auto found = checkpoints_.load_latest();
    if (!found) return;  // it was stopped before anything was saved
    for (const std::string& line : found->passed_over) context_.say(line + "; an earlier checkpoint is used");
    try {
      restore(found->state);
    } catch (const std::exception& error) {
      throw StageError(ErrorCode::kChangedRun, "the checkpoint '" + found->folder.string() +
                                                   "' does not fit this training: " +
                                                   std::string(error.what(), std::strcspn(error.what(), "\n")))
          .with_help("resume the run as it was, or start a new one");
    }
    saved_folder_ = found->folder;
    saved_ = {done_, epoch_, batch_};
    save_clock_.saved(done_, wall_seconds());
    log_.resume_behind(done_);
    context_.resumed(found->state.metrics);
    context_.say("continues after step " + std::to_string(done_) + " of " + std::to_string(steps_));
  }

  void restore(const TrainingState& state) {
    check_base(network_, state);
    set_weights(network_, state.model);
    execution_.optimizer().load_state(state.optimizer);
    if (GradScaler* scaler = execution_.scaler(); scaler && !state.scaler.is_null()) {
      scaler->load_state(
          {{"scale", torch::tensor(state.scaler.at("scale").get<float>())},
           {"growth_tracker", torch::tensor(state.scaler.at("growth_tracker").get<std::int32_t>(), torch::kInt)}});
      skipped_in_a_row_ = state.scaler.at("skipped_in_a_row");
    }
    scheduler_.load_state(state.schedule);
    set_generator_state(state.random, device_);
    stopping_.load_state(state.stopping);
    so_far_ = epoch_so_far_from_json(state.epoch_so_far);
    done_ = state.step;
    epoch_ = state.epoch;
    batch_ = state.batch;
  }

  /// Leaves the network with the weights that are passed on, and says which they are.
  TrainingResult kept() {
    TrainingResult result{so_far_.last.epoch, done_, saved_folder_};
    // Without validation the last weights are the best known.
    if (const auto best =
            options_.keep == Keep::kBest ? checkpoints_.load_best(CheckpointPart::kWeights) : std::nullopt) {
      for (const std::string& line : best->passed_over) context_.say(line + "; the next best checkpoint is used");
      result = {best->state.epoch, best->state.step, best->folder};
      if (best->state.step != done_) set_weights(network_, best->state.model);
    }
    result.file /= "model.safetensors";
    return result;
  }

  void show(std::string_view phase, std::int64_t step, const NamedTensors& tensors) const {
    const std::string node = context_.folder().filename();
    for (const auto& [name, tensor] : tensors) observer_->see({node, step, phase}, name, tensor);
  }

  void show_gradient() const {
    NamedTensors losses = {{"loss", torch::tensor(so_far_.last.means.loss, torch::kDouble)}}, gradients;
    for (const auto& [name, value] : so_far_.last.means.terms) losses.set(name, torch::tensor(value, torch::kDouble));
    for (const auto& [name, weight] : trained_parameters(network_)) {
      if (weight.grad().defined()) gradients.set(name, weight.grad());
    }
    show("loss", done_, losses);
    show("gradient", done_, gradients);
  }

  std::string unit() const {
    const bool images = std::ranges::count(description_.tensors, "image", &TensorSpec::name) > 0;
    return images ? "images" : "samples";
  }

  const TrainingStep& step_;
  torch::nn::Module& network_;
  const TrainingData& data_;
  const TrainerOptions& options_;
  const MemoryPolicy& policy_;
  runner::RunContext& context_;
  StepObserver* const observer_;  // null in an ordinary run
  const at::Device device_;
  const DatasetDescription description_;
  const std::int64_t planned_steps_;   // the schedule's length
  const std::int64_t epochs_, steps_;  // to be run: fewer under smoke
  StepExecution execution_;
  const ScopedTf32 tf32_;
  Scheduler scheduler_;
  EarlyStopping stopping_;
  const MemoryMeter meter_;
  TrainingLog log_;
  MemoryLog memory_;
  Checkpoints checkpoints_;
  SaveClock save_clock_;
  std::deque<Pending> pending_;
  std::int64_t done_ = 0;   // steps
  std::int64_t epoch_ = 0;  // epochs done
  std::int64_t batch_ = 0;  // batches done of the one that is not
  std::int64_t skipped_in_a_row_ = 0;
  EpochSoFar so_far_;
  std::filesystem::path saved_folder_;                                         // the latest checkpoint
  std::optional<std::tuple<std::int64_t, std::int64_t, std::int64_t>> saved_;  // done_, epoch_ and batch_ in it
};

}  // namespace

TrainingResult train(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
                     const TrainerOptions& options, const MemoryPolicy& policy, runner::RunContext& context) {
  if (options.patience && !data.validation) {
    throw StageError(ErrorCode::kOptionConflict,
                     "patience waits for a better validation, and nothing is wired to the input 'validation'")
        .at("/patience")
        .with_help("wire it with inputs: {validation: data.validation}, or set patience: null");
  }
  if (std::holds_alternative<PlateauSchedule>(options.schedule) && !data.validation) {
    throw StageError(
        ErrorCode::kOptionConflict,
        "the schedule plateau waits for a better validation, and nothing is wired to the input 'validation'")
        .at("/schedule")
        .with_help("wire it with inputs: {validation: data.validation}, or choose another schedule");
  }
  const at::Device device{std::string(context.device())};
  const ScopedMemoryBudget budget(memory_budget(policy, device), device);
  network.to(device);
  network.train();
  return Training(step, network, data, options, policy, context).run();
}

}  // namespace stages
