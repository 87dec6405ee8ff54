#include "stages/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/stage.h"
#include "stages/loader.h"
#include "stages/memory_meter.h"
#include "stages/precision.h"
#include "stages/safetensors.h"
#include "stages/train/early_stopping.h"
#include "stages/train/grad_scaler.h"
#include "stages/train/gradient.h"
#include "stages/train/gradient_norm.h"
#include "stages/train/optimizer.h"
#include "stages/train/step_error.h"
#include "stages/train/training_log.h"
#include "stages/train/validation.h"
#include "stages/weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::int64_t kMaxSkipped = 100;  // by then the scale has shrunk by 2^100

/// What the weights of a file are said to be.
std::map<std::string, std::string> metadata(const DatasetDescription& data, std::int64_t epoch, std::int64_t step) {
  return {{"format", "pt"},
          {"classes", nlohmann::json(data.classes).dump()},
          {"epoch", std::to_string(epoch)},
          {"step", std::to_string(step)}};
}

std::int64_t steps_per_epoch(const Dataset& data, std::int64_t size, std::int64_t batch_size) {
  const std::int64_t whole = size / batch_size;
  const bool rest = size % batch_size != 0 && !data.loader().drop_last;
  const std::int64_t steps = rest ? whole + 1 : whole;
  if (steps > 0) return steps;
  throw StageError(ErrorCode::kTooFewSamples, "/batch_size",
                   "the training data has " + std::to_string(size) + " samples, which make no batch of " +
                       std::to_string(batch_size),
                   size == 0 ? "" : "lower batch_size, or set drop_last: false");
}

class Training {
 public:
  Training(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
           const TrainerOptions& options, const MemoryPolicy& policy, runner::RunContext& context)
      : step_(step),
        network_(network),
        data_(data),
        options_(options),
        context_(context),
        device_(std::string(context.device())),
        description_(data.train->describe()),
        planned_steps_(options.epochs * steps_per_epoch(*data.train, description_.size, options.batch_size)),
        epochs_(context.smoke() ? 1 : options.epochs),
        steps_(context.smoke() ? std::min<std::int64_t>(2, planned_steps_) : planned_steps_),
        plan_(make_step_plan(step, policy, std::min(options.batch_size, description_.size))),
        optimizer_(options.optimizer, trained_parameters(network)),
        scaler_(plan_.precision == Precision::kFp16 ? std::make_optional<GradScaler>(GradScaler::Options{}, device_)
                                                    : std::nullopt),
        stopping_(options.higher_is_better, options.patience),
        meter_(device_),
        log_(context, {epochs_, steps_, options.log_every, unit(), meter_.budget(), [this] { return meter_.in_use(); }},
             seconds_now) {
    check_length(options.schedule, planned_steps_);
  }

  TrainingResult run() {
    TrainingResult best;
    for (std::int64_t epoch = 1; epoch <= epochs_; ++epoch) {
      run_epoch(epoch);
      const std::optional<Means> validation = measure(epoch);
      log_.end_epoch(last_, epoch_means_, validation);
      save("last.safetensors", epoch);
      if (!validation) continue;
      if (stopping_.observe(epoch, validation->at(options_.monitor))) best = save("best.safetensors", epoch);
      if (stopping_.exhausted(epoch)) {
        context_.say("stopped after epoch " + std::to_string(epoch) + ": no better validation " + options_.monitor +
                     " since epoch " + std::to_string(best.epoch));
        break;
      }
    }
    // Without validation the last weights are the best known.
    if (best.epoch == 0) best = save("best.safetensors", last_.epoch);
    if (options_.keep == Keep::kLast) return {last_.epoch, last_.step, context_.folder() / "last.safetensors"};
    if (best.epoch != last_.epoch) set_weights(network_, read_safetensors(best.file).tensors);
    return best;
  }

 private:
  /// A step whose numbers the host has not looked at.
  struct Pending {
    StepPlace place;
    StepNumbers numbers;
    double learning_rate;
  };

  void run_epoch(std::int64_t epoch) {
    Loader loader(data_.train, shuffled_order(description_.size, context_.seed(), epoch - 1), options_.batch_size,
                  epoch - 1, data_.train->loader().drop_last);
    log_.begin_epoch();
    epoch_means_ = {};
    while (done_ < steps_) {
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      run_step(epoch, *batch);
    }
    settle(0);
    if (loader.skipped() > 0) {
      context_.say("samples skipped because they cannot be read: " + std::to_string(loader.skipped()));
    }
    if (epoch_means_.weight > 0) return;
    throw StageError(ErrorCode::kTooFewSamples, "", "no sample of the training data could be read");
  }

  void run_step(std::int64_t epoch, const Batch& batch) {
    refuse_bad_unit(step_, *data_.train, batch);
    const double weight = step_.weight(batch);
    StepNumbers numbers =
        accumulate_gradient(step_, network_, batch.to(device_), weight, plan_, {context_.seed(), done_ + 1},
                            scaler_ ? std::optional(scaler_->scale()) : std::nullopt, [this] { stop_if_cancelled(); });
    optimizer_.prepare();
    const std::vector<at::Tensor> gradients = optimizer_.gradients();
    std::optional<at::Tensor> overflow;
    if (scaler_) {
      overflow = scaler_->unscale(gradients);
      numbers.set_scaling(scaler_->scale(), *overflow);
    }
    std::optional<at::Tensor> factor;
    if (options_.gradient_clip_norm && !gradients.empty()) {
      const at::Tensor norm = global_norm(gradients);
      numbers.set_gradient_norm(norm);
      factor = clip_factor(norm, *options_.gradient_clip_norm);
    }
    numbers.fetch();

    // A CPU's numbers are looked at now. A GPU's would make the host wait: they are looked at before the next step is
    // committed, and until then the GPU itself leaves the weights alone if they are not finite.
    const std::optional<at::Tensor> skip = device_.is_cpu() ? overflow : std::optional(numbers.broken());
    const Rates rates = rates_at(options_.schedule, learning_rate(options_.optimizer), done_, planned_steps_);
    pending_.push_back(
        {{epoch, ++done_, batch.units(), plan_, batch.indices}, std::move(numbers), rates.learning_rate});
    settle(device_.is_cpu() ? 0 : 1);

    // From here on nothing is allocated and nothing can fail.
    const torch::NoGradGuard no_graph;
    const bool clips = factor && (!device_.is_cpu() || factor->item<double>() < 1);
    if (clips) at::_foreach_mul_(gradients, *factor);
    optimizer_.step(rates, skip);
    if (scaler_) scaler_->update(*overflow);
    network_.zero_grad();
  }

  /// Looks at steps until `allowed` are left that nobody has looked at.
  void settle(std::size_t allowed) {
    while (pending_.size() > allowed) {
      const Pending& step = pending_.front();
      refuse_not_finite(step.numbers, step.place, *data_.train);
      skipped_in_a_row_ = step.numbers.skipped() ? skipped_in_a_row_ + 1 : 0;
      if (skipped_in_a_row_ == kMaxSkipped) refuse_endless_overflow(step.place, *step.numbers.loss_scale());
      last_ = {step.place.epoch,          step.place.step,       step.place.units,
               step.learning_rate,        step.numbers.means(),  step.numbers.gradient_norm(),
               step.numbers.loss_scale(), step.numbers.skipped()};
      epoch_means_.add(last_.means);
      log_.step(last_);
      pending_.pop_front();
    }
  }

  std::optional<Means> measure(std::int64_t epoch) {
    if (!data_.validation || (epoch % options_.validate_every != 0 && epoch != epochs_)) return {};
    ValidationOptions options;
    options.epoch = epoch - 1;
    options.batch_size = plan_.micro_batch > 0 ? plan_.micro_batch : options_.batch_size;
    options.device = device_;
    options.precision = plan_.precision;
    if (context_.smoke()) options.batches = 2;
    options.before_batch = [&](std::int64_t batch, std::int64_t batches) {
      stop_if_cancelled();
      log_.validated_batch(epoch, batch, batches);
    };
    return validate(step_, network_, data_.validation, options);
  }

  TrainingResult save(const char* name, std::int64_t epoch) const {
    const std::filesystem::path file = context_.folder() / name;
    write_safetensors(file, weights(network_), metadata(description_, epoch, done_));
    return {epoch, done_, file};
  }

  void stop_if_cancelled() const {
    if (context_.cancelled()) throw runner::Cancelled{};
  }

  std::string unit() const {
    const bool images = std::ranges::count(description_.tensors, "image", &TensorSpec::name) > 0;
    return images ? "images" : "samples";
  }

  const TrainingStep& step_;
  torch::nn::Module& network_;
  const TrainingData& data_;
  const TrainerOptions& options_;
  runner::RunContext& context_;
  const at::Device device_;
  const DatasetDescription description_;
  const std::int64_t planned_steps_;   // the schedule's length
  const std::int64_t epochs_, steps_;  // to be run: fewer under smoke
  const StepPlan plan_;
  Optimizer optimizer_;
  std::optional<GradScaler> scaler_;  // fp16 only
  EarlyStopping stopping_;
  const MemoryMeter meter_;
  TrainingLog log_;
  std::deque<Pending> pending_;
  std::int64_t done_ = 0;  // steps
  std::int64_t skipped_in_a_row_ = 0;
  StepRecord last_;  // the latest step looked at
  Means epoch_means_;
};

}  // namespace

TrainingResult train(const TrainingStep& step, torch::nn::Module& network, const TrainingData& data,
                     const TrainerOptions& options, const MemoryPolicy& policy, runner::RunContext& context) {
  if (options.patience && !data.validation) {
    throw StageError(ErrorCode::kOptionConflict, "/patience",
                     "patience waits for a better validation, and nothing is wired to the input 'validation'",
                     "wire it with inputs: {validation: data.validation}, or set patience: null");
  }
  network.to(at::Device(std::string(context.device())));
  network.train();
  return Training(step, network, data, options, policy, context).run();
}

}  // namespace stages
