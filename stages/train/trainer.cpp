#include "stages/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/episode_set.h"
#include "stages/machine/device.h"
#include "stages/machine/memory_meter.h"
#include "stages/plan/memory_budget.h"
#include "stages/plan/plan_forward.h"
#include "stages/plan/recovery.h"
#include "stages/train/idle_options.h"
#include "stages/train/memory_log.h"
#include "stages/train/observed_training.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/plan_training.h"
#include "stages/train/sharded_network.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_plan.h"
#include "stages/train/step_recovery.h"
#include "stages/train/step_snapshot.h"
#include "stages/train/training_checkpoints.h"
#include "stages/train/training_log.h"
#include "stages/train/training_ranks.h"
#include "stages/train/training_requests.h"
#include "stages/train/validation.h"
#include "stages/train/weights_watch.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

class Training {
 public:
  Training(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
           const TrainerOptions& options, const MemoryPolicy& policy, runner::RunContext& context,
           const Replan& replan)
      : step_(step),
        network_(network),
        data_(data),
        options_(options),
        policy_(policy),
        context_(context),
        ranks_(step, data, context),
        observed_(context),
        device_(context.node().device),
        description_(data.train->describe()),
        drops_last_(training_loader(*data.train, step, options.batch_size).drop_last),
        planned_steps_(training_length(description_.size, drops_last_, options)),
        epochs_(context.node().smoke ? 1 : options.epochs),
        steps_(context.node().smoke
                   ? std::min<std::int64_t>(observed_ ? observed_.steps() : 2, planned_steps_)
                   : planned_steps_),
        execution_(
            assemble_step(step, network, description_.size, options, policy, device_, context)),
        recovery_(policy, execution_,
                  recovery_options(step, network, description_.size, options, execution_, replan,
                                   context),
                  context),
        watch_(network, options.model_stage),
        learning_rates_(options.schedule, execution_.optimizer().learning_rates(), planned_steps_,
                        options.higher_is_better,
                        swa_schedule(options.swa, learning_rate(options.optimizer), planned_steps_,
                                     options.epochs)),
        stopping_(options.higher_is_better, options.patience, options.minimum_improvement),
        meter_(device_),
        log_(context,
             {.epochs = epochs_,
              .steps = steps_,
              .log_every = options.log_every,
              .unit = unit_of(description_),
              .budget_bytes = meter_.budget(),
              .memory_in_use = [this] { return meter_.in_use(); },
              .samples_in_unit =
                  episode_shape(description_).value_or(EpisodeShape{1, 1, 0}).samples()},
             steady_seconds),
        memory_(
            context,
            {device_, options.log_every, steps_, policy.empty_cache_every, options.planned_live},
            [this](std::int64_t live) {
              return bytes_by_owner(owned_tensors(network_, execution_.state_on_device()), live);
            }),
        pending_(*data.train, execution_.optimizer().groups(), log_),
        checkpoints_({execution_, recovery_, learning_rates_, stopping_, pending_}, description_,
                     options, context),
        requests_(execution_, ranks_, checkpoints_, context) {
    step.describe(description_);
    if (device_.is_cuda())
      execution_.copy_ahead(
          meta_batch(description_, std::min(options.batch_size, description_.size)));
    for (const std::string& line : idle_options(options, policy, execution_, planned_steps_))
      context.say(line);
  }

  TrainingResult run() {
    try {
      return run_epochs();
    } catch (const std::exception& error) {
      if (is_device_lost(error)) throw;  // nothing on the device can be restored
      undo_unwritten();
      if (is_rank_lost(error) && can_save())
        requests_.save_after_failure(done_, "another rank was lost");
      if (!is_out_of_memory(error, device_)) throw;
      const OutOfMemory what = look_at_out_of_memory(error, done_.steps + 1, step_, execution_,
                                                     options_.batch_size, policy_);
      runner::Recovery incident = memory_incident(device_);
      incident.step = what.step;
      for (const std::string& line : live_table(what)) context_.say(line);
      if (can_save()) requests_.save_after_failure(done_, "memory ran out");
      throw out_of_memory_error(what).elsewhere(other_devices(policy_, device_),
                                                std::move(incident));
    } catch (...) {
      undo_unwritten();
      throw;
    }
  }

 private:
  TrainingResult run_epochs() {
    if (context_.node().resuming && !options_.begins_anew) resume();
    execution_.divide_parameters();
    ranks_.compare(done_.steps);
    recovery_.go_on_after_kills(context_.node().restarts.plans);
    watch_.remember(done_.steps);
    if (observed_) observed_.show("start", 0, weights_with_memory(network_));
    memory_.begin();
    while (done_.epochs < epochs_ && !stopping_.exhausted()) {
      run_epoch();
      finish_epoch();
    }
    average_best();
    memory_.end(done_.steps);
    return checkpoints_.keep(done_);
  }

  void measure_parameters() {
    std::int64_t trained = 0;
    for (const auto& [name, weight] : trained_parameters(network_)) trained += weight.numel();
    context_.metric("train/trained_parameters", static_cast<double>(trained), done_.steps);
  }

  void run_epoch() {
    choose_trained_part();
    RetriedLoader loader(pass_from(done_.batches), policy_, context_);
    log_.begin_epoch();
    std::int64_t left_out = 0;
    while (done_.steps < steps_) {
      if (!requests_.are_of_all()) requests_.handle(done_);
      const std::optional<Batch> batch = next_batch(loader);
      if (requests_.are_of_all()) requests_.handle_of_all(done_);
      if (!batch) break;
      if (batch->units() < least_units(step_)) {
        left_out += batch->units();
      } else {
        run_step(*batch);
        if (done_.steps == 1) measure_parameters();  // a first metric shows that steps work
      }
      done_.batches = loader.position();
      is_whole_ = true;
      watch_.remember(done_.steps);
    }
    pending_.flush(0);
    before_.reset();
    log_.say_missing(loader.skipped(), left_out);
    if (pending_.epoch().means.weight > 0) return;
    throw StageError(ErrorCode::kTooFewSamples, "none of the training samples could be read");
  }

  RetriedLoader::Pass pass_from(std::int64_t first_batch) const {
    return {data_.train,
            data_.train->epoch_order(context_.node().seed, done_.epochs),
            options_.batch_size,
            done_.epochs,
            drops_last_,
            first_batch,
            ranks_.reading(done_.epochs == 0)};
  }

  /// Returns the next batch. A request to stop may arrive while samples are being read.
  std::optional<Batch> next_batch(RetriedLoader& loader) {
    try {
      return loader.next();
    } catch (const runner::Canceled&) {
      if (requests_.are_of_all()) return {};  // handle_of_all() stops
      requests_.stop(done_);
    }
  }

  /// True if training can continue from the current weights, and there is a step to save.
  bool can_save() const { return is_whole_ && done_.steps > 0 && done_.epochs < epochs_; }

  /// Parameters that are not trained in this epoch get requires_grad false and keep their state.
  void choose_trained_part() {
    const PartTrainedFirst& first = options_.trained_first;
    if (first.epochs == 0 && !execution_.optimizer().freezes_groups()) return;
    const bool is_alone = done_.epochs < first.epochs;
    execution_.optimizer().ask_for_gradients(done_.epochs, [&](std::string_view name) {
      return !is_alone || matches_parameter(name, first.pattern);
    });
  }

  void finish_epoch() {
    average();
    const std::optional<Means> validation = measure();
    is_whole_ = false;
    const EpochSoFar& epoch = pending_.epoch();
    log_.end_epoch(epoch.last, epoch.means, epoch.skipped_steps, validation);
    if (validation && std::isfinite(validation->loss) &&
        !pending_.is_proportionate(validation->loss))
      context_.say("the validation loss is far out of proportion to the training loss");
    if (done_.epochs == 0)
      report_remarks({data_.train.get(), data_.validation.get()}, epoch.last.step, context_);
    memory_.end_epoch(epoch.last.epoch, epoch.last.step);
    pending_.begin_epoch();
    ++done_.epochs;
    done_.batches = 0;
    const std::optional<double> metric =
        validation ? std::optional(validation->at(options_.monitor)) : std::nullopt;
    if (metric) learning_rates_.observe(*metric, done_.epochs);
    const bool is_best = metric && stopping_.observe(done_.epochs, *metric);
    if (validation && options_.enough_accuracy &&
        validation->at("accuracy") >= *options_.enough_accuracy)
      stopping_.be_content();
    const bool is_last = done_.epochs == epochs_ || stopping_.exhausted();
    if (is_best || is_last || checkpoints_.is_due_after_epoch(done_))
      checkpoints_.save(done_, metric, validation);
    is_whole_ = true;
    if (done_.epochs < epochs_ && is_last) say_stopped();
  }

  void say_stopped() const {
    context_.say("stopped after epoch " + std::to_string(done_.epochs) + ": " +
                 stopping_.reason(options_.monitor));
  }

  void run_step(const Batch& batch) {
    ranks_.begin_step(done_.steps + 1);
    fail_if_requested();
    refuse_bad_unit(step_, *data_.train, batch);
    if (observed_) observed_.show("batch", done_.steps + 1, batch.tensors());
    execution_.optimizer().set_rates(learning_rates_.at(done_.steps, done_.epochs));
    StepExecution::Computed computed = compute_with_retries(batch);
    // With optimizer_in_backward, the optimizer has already changed the weights.
    if (!execution_.plan().optimizer_in_backward) watch_.check(done_.steps + 1);
    is_whole_ = false;
    pending_.add({{done_.epochs + 1, ++done_.steps, batch.units(),
                   plan_of_numbers(execution_.plan(), context_.node().ranks.size), batch.indices},
                  std::move(computed.numbers),
                  execution_.optimizer().rates(),
                  before_->generators(),
                  std::move(computed.histograms)});
    if (device_.is_cpu() || observed_) pending_.flush(0);
    else pending_.flush_due();
    if (!execution_.failed()) before_.reset();  // the host has checked this step
    if (observed_) observed_.show_gradient(done_.steps, pending_.epoch().last.means, network_);

    // From here on, nothing is allocated and nothing can fail.
    execution_.commit(computed);
    pending_.mark_written();
    if (observed_) observed_.show("weights", done_.steps, weights_with_memory(network_));
    memory_.end_step(done_.steps);
    say_recorded();
    recovery_.end_step(done_.steps);
  }

  void say_recorded() {
    const StepGraph* const graph = execution_.graph();
    if (!graph || graph->recorded() == graphs_) return;
    graphs_ = graph->recorded();
    context_.say("step " + std::to_string(done_.steps) +
                 ": recorded a CUDA graph, which is replayed from now on");
  }

  /// Runs the step's first half, and retries it when memory runs out, as often as the recovery
  /// allows.
  StepExecution::Computed compute_with_retries(const Batch& batch) {
    bool is_saved = false;  // in before_
    const auto save = [&] {
      if (is_saved) return;
      if (before_) before_->save(execution_.failed());
      else before_.emplace(network_, device_);
      is_saved = true;
    };
    for (recovery_.begin_step();;) {
      try {
        return execution_.compute(
            batch, {context_.node().seed, done_.steps + 1}, [this] { memory_.end_micro_batch(); },
            save);
      } catch (const std::exception& error) {
        if (is_device_lost(error)) throw;  // nothing on the device can be restored
        if (is_saved) before_->restore();
        if (execution_.is_half_written()) give_up_half_written();
        else if (is_out_of_memory(error, device_) && recovery_.retries(done_.steps + 1)) continue;
        throw;
      } catch (...) {
        if (is_saved) before_->restore();
        if (execution_.is_half_written()) give_up_half_written();
        throw;
      }
    }
  }

  void undo_unwritten() {
    if (before_) pending_.undo_unwritten(*before_);
  }

  /// A step that optimizer_in_backward has half written can be neither repeated nor saved.
  void give_up_half_written() {
    is_whole_ = false;
    context_.say("step " + std::to_string(done_.steps + 1) +
                 " has already updated some of the weights (optimizer_in_backward), so it cannot "
                 "be undone: continue from the last checkpoint");
  }

  /// Includes an epoch's weights in the average, from swa.start on.
  void average() {
    if (!options_.swa || done_.epochs < options_.swa->start) return;
    RetriedLoader loader(pass_from(0), policy_, context_);
    const StepKey key{context_.node().seed, done_.steps};
    try {
      average_epoch({step_, execution_, done_.epochs - options_.swa->start + 1, loader, key,
                     context_, !requests_.are_of_all()});
    } catch (const runner::Canceled&) {
      requests_.stop(done_);
    }
  }

  /// Averages the weights from the best epochs. Keeps the average if it is better than each of
  /// them.
  void average_best() {
    if (options_.average_best == 0) return;
    const TrainingCheckpoints::BestEpochs best = checkpoints_.load_average();
    if (best.epochs.empty()) {
      context_.say("average_best: only one epoch was validated, so there is nothing to average");
      return;
    }
    RetriedLoader loader(pass_from(0), policy_, context_);
    const StepKey key{context_.node().seed, done_.steps};
    const Means validation = [&] {
      try {
        renew_statistics(
            {step_, execution_, /*number=*/1, loader, key, context_, !requests_.are_of_all()});
        return validated(done_.epochs - 1);
      } catch (const runner::Canceled&) {
        requests_.stop(done_);
      }
    }();
    const double metric = validation.at(options_.monitor);
    context_.metric("average_best/" + options_.monitor, metric, done_.steps);
    checkpoints_.keep_better(done_, best, metric, validation);
  }

  /// Measures the network's current weights on the validation data. `epoch` is 0-based.
  Means validated(std::int64_t epoch) {
    ValidationOptions options;
    options.epoch = epoch;
    options.batch_size = options_.batch_size;
    options.plan = execution_.plan();
    options.ranks = context_.node().ranks;
    if (context_.node().smoke) options.batches = 2;
    RowsAtOnce rows(policy_, device_, "validation", context_);
    options.before_batch = [&](std::int64_t batch, std::int64_t batches) {
      if (context_.canceled() && !requests_.are_of_all()) throw runner::Canceled{};
      log_.validated_batch(epoch + 1, batch, batches);
    };
    return validate(step_, execution_.network(), data_.validation, options, rows);
  }

  std::optional<Means> measure() {
    const std::int64_t epoch = done_.epochs + 1;
    if (!data_.validation || (epoch % options_.validate_every != 0 && epoch != epochs_)) return {};
    std::optional<ScopedAverage> average(std::in_place, execution_.average());
    try {
      return validated(done_.epochs);
    } catch (const runner::Canceled&) {
      average.reset();  // the trained weights are saved, not the averages
      requests_.stop(done_);
    }
  }

  void resume() {
    const std::optional<TrainingPosition> found = checkpoints_.resume(epochs_);
    if (!found) return;
    done_ = *found;
    log_.resume_after(done_.steps);
    context_.say("resuming after step " + std::to_string(done_.steps) + " of " +
                 std::to_string(steps_));
    if (stopping_.exhausted()) say_stopped();
  }

  const TrainingStep& step_;
  torch::nn::Module& network_;
  const TrainingData& data_;
  const TrainerOptions& options_;
  const MemoryPolicy& policy_;
  runner::RunContext& context_;
  const TrainingRanks ranks_;
  const ObservedTraining observed_;
  const at::Device device_;
  DatasetDescription description_;
  const bool drops_last_;              // drop an incomplete last batch of an epoch
  const std::int64_t planned_steps_;   // the schedule's length
  const std::int64_t epochs_, steps_;  // number to run; fewer in a smoke run
  StepExecution execution_;
  StepRecovery recovery_;
  WeightsWatch watch_;
  LearningRates learning_rates_;
  EarlyStopping stopping_;
  const MemoryMeter meter_;
  TrainingLog log_;
  MemoryLog memory_;
  PendingSteps pending_;
  std::optional<StepSnapshot> before_;  // set during an epoch: the state before the latest step
  TrainingCheckpoints checkpoints_;
  TrainingRequests requests_;
  TrainingPosition done_;
  std::int64_t graphs_ = 0;  // recorded so far
  bool is_whole_ =
      true;  // the weights belong to done_: no step or end of an epoch is half finished
};

}  // namespace

TrainingResult train(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
                     const TrainerOptions& options, const MemoryPolicy& policy,
                     runner::RunContext& context, const Replan& replan) {
  if (!data.validation) check_without_validation(options);
  const at::Device device{context.node().device};
  const ScopedMemoryBudget budget(memory_budget(policy, device), device);
  run_or_go_elsewhere(policy, device, [&] {
    do_with_retry(policy, device, "moving the network", context,
                  [&] { move_network(network, device); });
  });
  return Training(step, network, data, options, policy, context, replan).run();
}

}  // namespace stages
