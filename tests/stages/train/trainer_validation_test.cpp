// What validations decide: the weights to keep, when to stop, and the learning rate.

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/train/trainer.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::ElementsAre;

TEST(TrainerValidation, ValidationRestoresTrainingMode) {
  TinyTraining training;
  training.run();
  EXPECT_TRUE(training.network->is_training());
}

TEST(TrainerValidation, ValidatesAtTheIntervalAndAtTheEnd) {
  TinyTraining training;
  training.options.epochs = 5;
  training.options.validate_every = 2;
  training.run();
  EXPECT_THAT(training.context.steps("validation/loss"), ElementsAre(8, 16, 20));
}

/// A training run with given validation losses: they replace the trainer's own measurement in each
/// epoch.
class ScriptedStep final : public TinyStep {
 public:
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    NamedTensors terms = TinyStep::loss(encoded, part);
    if (at::GradMode::is_enabled()) return terms;
    return {{"cross_entropy", torch::full({}, script.at(epoch) * static_cast<double>(part.units()),
                                          encoded.at("logits").options())}};
  }
  std::vector<double> script;
  std::size_t epoch = 0;
};

struct ScriptedTraining : TinyTraining {
  ScriptedStep scripted;
  TrainingResult run_script(std::vector<double> losses) {
    scripted.script = std::move(losses);
    context.on_progress = [this](const runner::Progress& progress) {
      scripted.epoch = static_cast<std::size_t>(progress.epoch - 1);
    };
    return train(scripted, *network, {train_data, validation}, options, policy, context);
  }
};

TEST(TrainerValidation, KeepsTheWeightsOfTheBestEpoch) {
  ScriptedTraining best, two_epochs;
  const TrainingResult result = best.run_script({3, 1, 2, 2});
  EXPECT_EQ(result.epoch, 2);
  EXPECT_EQ(result.step, 8);
  EXPECT_EQ(result.file,
            best.context.node().folder / "checkpoints/step-00000008/model.safetensors");
  const Safetensors file = read_safetensors(result.file);
  EXPECT_EQ(file.metadata.at("epoch"), "2");
  EXPECT_EQ(file.metadata.at("step"), "8");
  EXPECT_EQ(file.metadata.at("classes"), R"(["class0","class1","class2"])");
  for (const auto& [name, tensor] : weights(*best.network))
    EXPECT_TRUE(tensor.cpu().equal(file.tensors.at(name))) << name;
  two_epochs.options.epochs = 2;
  two_epochs.run_script({3, 1});
  EXPECT_TRUE(best.flat_weights().equal(two_epochs.flat_weights()));
}

TEST(TrainerValidation, KeepsTheLastWeightsIfConfigured) {
  ScriptedTraining training;
  training.options.keep = Keep::kLast;
  const TrainingResult result = training.run_script({3, 1, 2, 2});
  EXPECT_EQ(result.epoch, 4);
  EXPECT_EQ(result.file,
            training.context.node().folder / "checkpoints/step-00000016/model.safetensors");
  EXPECT_TRUE(std::filesystem::exists(training.context.node().folder /
                                      "checkpoints/step-00000008"));  // the best
  const Safetensors last = read_safetensors(result.file);
  for (const auto& [name, tensor] : weights(*training.network))
    EXPECT_TRUE(tensor.cpu().equal(last.tensors.at(name))) << name;
}

TEST(TrainerValidation, StopsWhenPatienceIsExhausted) {
  ScriptedTraining training;
  training.options.patience = 2;
  training.options.epochs = 9;
  EXPECT_EQ(training.run_script({3, 1, 2, 2, 0, 0, 0, 0, 0}).epoch, 2);
  EXPECT_EQ(training.context.said.back(),
            "stopped after epoch 4: no better validation loss since epoch 2");
}

TEST(TrainerValidation, PatienceCountsValidations) {
  TinyTraining training;
  training.options.epochs = 20;
  training.options.validate_every = 5;
  training.options.patience = 3;
  training.run();
  EXPECT_EQ(training.context.values("validation/loss").size(), 4U);
  EXPECT_EQ(training.context.values("train/epoch_loss").size(), 20U);
}

TEST(TrainerValidation, ValidationPlateauLowersTheRate) {
  ScriptedTraining training;
  training.options.epochs = 6;
  training.options.batch_size = 30;
  training.options.schedule = PlateauSchedule{.factor = 0.5, .patience = 1};
  training.run_script({3, 1, 2, 2, 2, 2});
  EXPECT_THAT(training.context.values("train/learning_rate"),
              ElementsAre(0.05, 0.05, 0.05, 0.05, 0.025, 0.025));
}

TEST(TrainerValidation, PlateauFollowsTheDirectionOfTheMonitor) {
  TinyTraining training;
  training.options.epochs = 5;
  training.options.batch_size = 30;
  training.options.monitor = "accuracy";
  training.options.higher_is_better = true;
  training.options.optimizer = SgdOptions{.learning_rate = 1e-7};  // the accuracy does not change
  training.options.schedule = PlateauSchedule{.factor = 0.5, .patience = 0};
  training.run();
  EXPECT_THAT(training.context.values("train/learning_rate"),
              ElementsAre(1e-7, 1e-7, 5e-8, 2.5e-8, 1.25e-8));
}

TEST(TrainerValidation, PlateauCountsValidationsNotEpochs) {
  ScriptedTraining training;
  training.options.epochs = 6;
  training.options.batch_size = 30;
  training.options.validate_every = 2;
  training.options.schedule = PlateauSchedule{.factor = 0.5, .patience = 0};
  training.run_script({9, 1, 9, 1, 9, 1});
  EXPECT_THAT(training.context.values("train/learning_rate"),
              ElementsAre(0.05, 0.05, 0.05, 0.05, 0.025, 0.025));
}

TEST(TrainerValidation, PlateauWithoutValidationIsRejected) {
  TinyTraining training;
  training.validation = nullptr;
  training.options.schedule = PlateauSchedule{};
  EXPECT_REFUSED(training.run(), kOptionConflict, "/schedule", "plateau");
}

TEST(TrainerValidation, LastEpochIsBestWithoutValidation) {
  TinyTraining training;
  training.validation = nullptr;
  const TrainingResult result = training.run();
  EXPECT_EQ(result.epoch, 4);
  EXPECT_EQ(result.file,
            training.context.node().folder / "checkpoints/step-00000016/model.safetensors");
  EXPECT_EQ(read_safetensors(result.file).metadata.at("epoch"), "4");
}

TEST(TrainerValidation, PatienceWithoutValidationIsRejected) {
  TinyTraining training;
  training.validation = nullptr;
  training.options.patience = 3;
  EXPECT_REFUSED(training.run(), kOptionConflict, "/patience", "patience");
}

}  // namespace
}  // namespace stages
