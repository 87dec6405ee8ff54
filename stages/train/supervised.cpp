#include <algorithm>
#include <optional>
#include <string>

#include <torch/torch.h>

#include "runner/stage/choice.h"
#include "runner/stage/plan_context.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/memory/policy.h"
#include "stages/train/certify.h"
#include "stages/train/loss.h"
#include "stages/train/plan_training.h"
#include "stages/train/schedule_options.h"
#include "stages/train/trained_weights.h"
#include "stages/train/trainer.h"
#include "stages/train/warm_start.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// Cross-entropy of a model's logits.
class ClassificationStep final : public TrainingStep {
 public:
  ClassificationStep(const Model& model, std::int64_t classes, double label_smoothing)
      : model_(model), classes_(classes), label_smoothing_(label_smoothing) {}

  std::vector<LossTerm> terms() const override { return {{"cross_entropy", Coupling::kPerSample}}; }
  bool mixes_samples() const override { return model_.mixes_samples(); }

  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    const at::Tensor labels = batch["label"].contiguous();
    const auto* label = labels.const_data_ptr<std::int64_t>();
    for (std::int64_t unit = 0; unit < batch.units(); ++unit) {
      if (label[unit] >= 0 && label[unit] < classes_) continue;
      return BadUnit{unit, ErrorCode::kLabelOutOfRange,
                     "the label " + std::to_string(label[unit]) + " is outside the model's " +
                         std::to_string(classes_) + " classes"};
    }
    return {};
  }

  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    return {{"cross_entropy", cross_entropy_sum(encoded.at("logits"), part["label"], label_smoothing_)}};
  }
  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    return {{"accuracy", correct_count(encoded.at("logits"), part["label"])}};
  }

 private:
  const Model& model_;
  const std::int64_t classes_;
  const double label_smoothing_;
};

void check_labels(const Dataset& train, const Dataset* validation) {
  const std::vector<std::string> classes = train.describe().classes;
  if (classes.empty()) {
    throw StageError(ErrorCode::kLabelOutOfRange, "the training data has no classes")
        .with_help("wire labelled data to 'train'");
  }
  if (!validation || validation->describe().classes == classes) return;
  for (const std::string& name : validation->describe().classes) {
    if (std::ranges::find(classes, name) != classes.end()) continue;
    throw StageError(ErrorCode::kLabelOutOfRange,
                     "the validation data has a class '" + name + "' that the training data lacks")
        .with_help("train and validate on the same classes");
  }
  throw StageError(ErrorCode::kLabelOutOfRange,
                   "the validation data numbers its classes differently from the training data")
      .with_help("give both the same classes in the same order");
}

/// The options of schemas/train/supervised.schema.json.
struct SupervisedConfig {
  TrainerOptions trainer;
  std::int64_t gradient_accumulation_steps = 1;
  std::string pointer;  // where the recipe says all this, "/train"
  double label_smoothing = 0;
  std::optional<std::string> warm_start;
};

class Supervised final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    SupervisedConfig config;
    TrainerOptions& trainer = config.trainer;
    config.pointer = reader.pointer();
    reader.read("warm_start", config.warm_start);
    reader.read("epochs", trainer.epochs);
    reader.read("batch_size", trainer.batch_size);
    reader.read("gradient_accumulation_steps", config.gradient_accumulation_steps);
    reader.read("gradient_clip_norm", trainer.gradient_clip_norm);
    reader.read("label_smoothing", config.label_smoothing);
    reader.read("validate_every", trainer.validate_every);
    reader.read("patience", trainer.patience);
    reader.read("monitor", trainer.monitor);
    trainer.keep = runner::choice<Keep>(reader, "keep", {{"best", Keep::kBest}, {"last", Keep::kLast}});
    reader.read("log_every", trainer.log_every);
    trainer.higher_is_better = runner::choice<bool>(reader, "monitor", {{"loss", false}, {"accuracy", true}});
    trainer.checkpoint = read_save_options(reader.section("checkpoint"));
    trainer.optimizer = read_optimizer(reader.section("optimizer"));
    runner::ConfigReader& schedule = reader.section("schedule");
    trainer.schedule = read_schedule(schedule, learning_rate(trainer.optimizer));
    trainer.parameter_groups = read_parameter_groups(reader, trainer.optimizer, trainer.schedule);
    const auto* one_cycle = std::get_if<OneCycleSchedule>(&trainer.schedule);
    if (one_cycle && one_cycle->cycle_momentum && !has_momentum(trainer.optimizer)) {
      schedule.fail("cycle_momentum", ErrorCode::kOptionConflict, "cycle_momentum finds no momentum in the optimizer",
                    "set optimizer.momentum: 0.9, or cycle_momentum: false");
    }
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Supervised>(std::move(config)));
  }

  explicit Supervised(SupervisedConfig config) : config_(std::move(config)) {}

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs, runner::PlanContext& context) override {
    const std::optional<Trained> trained = find_trained(config_.trainer, context);
    const auto [checkpoint, description] = begin(trained, inputs);
    if (!trained) plan_anew(*checkpoint, description, inputs, context);
    checkpoint->network = checkpoint->model->outline(description);
    return runner::Outputs{{"checkpoint", checkpoint}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const std::optional<Trained> trained = find_trained(config_.trainer, context);
    const auto [checkpoint, description] = begin(trained, inputs);
    checkpoint->network = checkpoint->model->build(description, context.seed());
    const TrainingResult result =
        trained ? take_over(*trained, *checkpoint->network, context) : train_anew(*checkpoint, inputs, context);
    checkpoint->network->eval();
    checkpoint->epoch = result.epoch;
    checkpoint->step = result.step;
    checkpoint->file = result.file;
    return {{"checkpoint", checkpoint}};
  }

 private:
  struct Begun {
    std::shared_ptr<Checkpoint> checkpoint;  // without a network yet
    DatasetDescription description;          // that the network is made for
  };
  static Begun begin(const std::optional<Trained>& trained, const runner::Inputs& inputs) {
    Begun begun{std::make_shared<Checkpoint>(),
                trained ? trained->data : source_of(inputs.get<Dataset>("train")->describe())};
    begun.checkpoint->model = inputs.get<Model>("model");
    begun.checkpoint->classes = begun.description.classes;
    begun.checkpoint->model_stage = inputs.source("model");
    begun.checkpoint->inputs = begun.description.tensors;
    begun.checkpoint->transform = begun.description.transform;
    if (!trained) check_labels(*inputs.get<Dataset>("train"), inputs.find<Dataset>("validation").get());
    return begun;
  }

  void plan_anew(const Checkpoint& checkpoint, const DatasetDescription& description, const runner::Inputs& inputs,
                 runner::PlanContext& context) {
    const ClassificationStep step(*checkpoint.model, static_cast<std::int64_t>(checkpoint.classes.size()),
                                  config_.label_smoothing);
    const auto [options, policy] = settled(checkpoint, inputs, context);
    const auto train = inputs.get<Dataset>("train");
    const auto validation = inputs.find<Dataset>("validation");
    const DatasetDescription data = train->describe();
    const std::optional<DatasetDescription> measured =
        validation ? std::optional(validation->describe()) : std::nullopt;
    runner::MemoryPlan plan = plan_training({.step = step,
                                             .model = *checkpoint.model,
                                             .data = data,
                                             .network_data = description,
                                             .validation = measured ? &*measured : nullptr,
                                             .held = train.get(),
                                             .loader = train->loader(),
                                             .options = options,
                                             .policy = policy},
                                            context);
    planned_peak_ = plan.predicted;
    context.plan(std::move(plan));
    if (!context.wants_certificate()) return;
    context.certify(certify({.step = step,
                             .model = *checkpoint.model,
                             .data = data,
                             .batch_size = options.batch_size,
                             .policy = policy,
                             .model_stage = options.model_stage},
                            context.seed()));
  }

  struct Settled {
    TrainerOptions options;
    MemoryPolicy policy;
  };
  Settled settled(const Checkpoint& checkpoint, const runner::Inputs& inputs, runner::RunContext& context) const {
    Settled settled{config_.trainer, *inputs.get<MemoryPolicy>("memory")};
    settled.options.model_stage = checkpoint.model_stage;
    settled.options.planned_peak = planned_peak_;
    if (config_.gradient_accumulation_steps > 1) accumulate(settled.options, settled.policy, context);
    return settled;
  }

  TrainingResult train_anew(const Checkpoint& checkpoint, const runner::Inputs& inputs,
                            runner::RunContext& context) const {
    const ClassificationStep step(*checkpoint.model, static_cast<std::int64_t>(checkpoint.classes.size()),
                                  config_.label_smoothing);
    for (const std::string& line : checkpoint.model->notes(*checkpoint.network)) context.say(line);
    if (config_.warm_start) warm_start(*checkpoint.network, *config_.warm_start, context);
    const auto [options, policy] = settled(checkpoint, inputs, context);
    return train(step, *checkpoint.network, {inputs.get<Dataset>("train"), inputs.find<Dataset>("validation")}, options,
                 policy, context);
  }

  /// batch_size is the micro-batch, and what one step sees so many times it.
  void accumulate(TrainerOptions& options, MemoryPolicy& policy, runner::RunContext& context) const {
    const std::int64_t times = config_.gradient_accumulation_steps;
    if (policy.micro_batch) {
      throw StageError(ErrorCode::kOptionConflict, "gradient_accumulation_steps is " + std::to_string(times) +
                                                       " together with micro_batch " +
                                                       std::to_string(*policy.micro_batch) + ": both cut the batch")
          .at("/gradient_accumulation_steps")
          .with_help("set memory.micro_batch: auto, or gradient_accumulation_steps: 1 and the whole batch_size");
    }
    policy.micro_batch = options.batch_size;
    options.batch_size *= times;
    options.accumulated_by = config_.pointer;
    context.say("Effective batch size: " + std::to_string(options.batch_size) + " (" + std::to_string(times) + " x " +
                std::to_string(*policy.micro_batch) + ")");
  }

  const SupervisedConfig config_;
  std::optional<std::int64_t> planned_peak_;  // bytes, once it has been planned
};

}  // namespace

extern const runner::StageKind kTrainSupervised = {.name = "train.supervised", .create = Supervised::create};

}  // namespace stages
