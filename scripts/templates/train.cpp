#include <memory>
#include <optional>
#include <string>

#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/memory/policy.h"
#include "stages/train/loss.h"
#include "stages/train/trainer.h"

namespace stages {
namespace {

/// How one batch becomes a loss.
class NovelStep final : public TrainingStep {
 public:
  NovelStep(const Model& model, std::int64_t classes) : model_(model), classes_(classes) {}

  std::vector<LossTerm> terms() const override { return {{"cross_entropy", Coupling::kPerSample}}; }
  bool mixes_samples() const override { return model_.mixes_samples(); }

  std::optional<BadUnit> find_bad_unit(const Batch& batch) const override {
    const at::Tensor bad = (batch["label"] < 0).logical_or_(batch["label"] >= classes_).nonzero();
    if (bad.size(0) == 0) return {};
    return BadUnit{bad[0][0].item<std::int64_t>(), runner::ErrorCode::kLabelOutOfRange,
                   "the label is outside the model's " + std::to_string(classes_) + " classes"};
  }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    return {{"cross_entropy", cross_entropy_sum(encoded.at("logits"), part["label"], /*label_smoothing=*/0)}};
  }

 private:
  const Model& model_;
  const std::int64_t classes_;
};

class Novel final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    TrainerOptions options;
    reader.read("epochs", options.epochs);
    reader.read("batch_size", options.batch_size);
    options.optimizer = read_optimizer(reader.section("optimizer"));
    options.schedule = read_schedule(reader.section("schedule"), learning_rate(options.optimizer));
    options.monitor = "loss";
    if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Novel>(std::move(options)));
  }

  explicit Novel(TrainerOptions options) : options_(std::move(options)) {}

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const TrainingData data{inputs.get<Dataset>("train"), inputs.find<Dataset>("validation")};
    const DatasetDescription description = data.train->describe();
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->model = inputs.get<Model>("model");
    checkpoint->classes = description.classes;
    checkpoint->network = checkpoint->model->build(description, context.seed());
    const NovelStep step(*checkpoint->model, static_cast<std::int64_t>(description.classes.size()));
    const TrainingResult result =
        train(step, *checkpoint->network, data, options_, *inputs.get<MemoryPolicy>("memory"), context);
    checkpoint->network->eval();
    checkpoint->epoch = result.epoch;
    checkpoint->step = result.step;
    checkpoint->file = result.file;
    return {{"checkpoint", std::move(checkpoint)}};
  }

 private:
  const TrainerOptions options_;
};

}  // namespace

extern const runner::StageKind kTrainNovel = {.name = "train.novel", .create = Novel::create};

}  // namespace stages
