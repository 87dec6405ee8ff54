#include "stages/train/swa.h"

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/convolution_layers.h"
#include "stages/train/weight_average.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::ElementsAre;

constexpr WeightAverageOptions kEqual{.is_equal = true};

/// A weight with one element, and a running statistic.
struct Numbers : torch::nn::Module {
  Numbers()
      : weight(register_parameter("weight", torch::zeros(1))),
        running_mean(register_buffer("running_mean", torch::zeros(1))) {}
  at::Tensor weight, running_mean;

  void set(double number) {
    const torch::NoGradGuard no_graph;
    weight.fill_(number);
    running_mean.fill_(10 * number);
  }
};

double value(const NamedTensors& tensors, const std::string& name) {
  return tensors.at(name).item<double>();
}

TEST(EqualAverage, IsTheMeanOfTheEpochs) {
  Numbers network;
  WeightAverage average(network, kEqual);
  for (const int epoch : {1, 2, 3, 4}) {
    network.set(2 * epoch);  // 2, 4, 6, 8
    average.include(epoch);
  }
  EXPECT_EQ(value(average.state(), "weight.average"), 5);
}

TEST(EqualAverage, CopiesRunningStatistics) {
  Numbers network;
  WeightAverage average(network, kEqual);
  for (const int epoch : {1, 2}) {
    network.set(epoch);
    average.include(epoch);
  }
  EXPECT_EQ(value(average.state(), "running_mean.average"), 20);
}

TEST(EqualAverage, IncludesAnEpochOnce) {
  Numbers network;
  WeightAverage average(network, kEqual);
  network.set(1);
  average.include(1);
  network.set(5);
  average.include(1);
  EXPECT_EQ(value(average.state(), "weight.average"), 1);
}

TEST(EqualAverage, DoesNotFollowTheSteps) {
  Numbers network;
  WeightAverage average(network, kEqual);
  network.set(3);
  average.update(1);
  EXPECT_EQ(value(average.state(), "weight.average"), 0);
}

TEST(EqualAverage, TrainedWeightsAreTheResultBeforeItsFirstEpoch) {
  Numbers network;
  WeightAverage average(network, kEqual);
  network.set(3);
  EXPECT_FALSE(average.is_result());
  NamedTensors model = weights(network), rest;
  average.save(model, rest);
  EXPECT_EQ(value(model, "weight"), 3);
}

TEST(EqualAverage, SavedStateIsRestored) {
  for (const int epochs : {0, 2}) {
    Numbers network, other;
    WeightAverage average(network, kEqual), again(other, kEqual);
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      network.set(epoch);
      average.include(epoch);
    }
    network.set(7);
    NamedTensors model = weights(network), rest = {{"weight.momentum", torch::ones(1)}};
    average.save(model, rest);
    again.load(model, rest);
    EXPECT_EQ(value(model, "weight"), 7);
    EXPECT_EQ(rest.size(), 1);
    EXPECT_EQ(again.epochs(), epochs);
    if (epochs > 0) EXPECT_EQ(value(again.state(), "weight.average"), 1.5);
  }
}

TEST(Swa, ScheduleStopsAndTheRateAnneals) {
  const LearningRates rates(ExponentialSchedule{0.5}, {1, 0.5}, 80, false,
                            SwaSchedule{.first_epoch = 2,
                                        .first_step = 20,
                                        .factor = 0.75,
                                        .anneal_epochs = 2,
                                        .anneal = Anneal::kLinear});
  std::vector<double> first, second;
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const std::vector<Rates> now = rates.at(10 * epoch + 3, epoch);
    first.push_back(now[0].learning_rate);
    second.push_back(now[1].learning_rate);
  }
  EXPECT_THAT(first, ElementsAre(1, 0.5, 0.25, 0.5, 0.75, 0.75));
  EXPECT_THAT(second, ElementsAre(0.5, 0.25, 0.125, 0.25, 0.375, 0.375));
}

TEST(Swa, PlateausAreIgnoredAfterTheScheduleStops) {
  LearningRates rates(PlateauSchedule{.factor = 0.5, .patience = 0}, {1}, 80, false,
                      SwaSchedule{.first_epoch = 2, .factor = 2, .anneal_epochs = 100});
  rates.observe(1, 1);
  rates.observe(1, 2);
  const double before = rates.at(20, 2).front().learning_rate;
  rates.observe(1, 3);
  EXPECT_EQ(rates.at(20, 2).front().learning_rate, before);
}

TEST(Swa, ResultIsTheAverageOfTheLastEpochs) {
  const auto trained = [](std::int64_t epochs) {
    TinyTraining training;
    training.options.epochs = epochs;
    training.options.keep = Keep::kLast;
    training.run();
    return training.flat_weights();
  };
  TinyTraining averaged;
  averaged.options.epochs = 3;
  averaged.options.keep = Keep::kLast;
  averaged.options.swa = SwaOptions{.start = 1, .learning_rate = {}};
  averaged.options.average = kEqual;
  const TrainingResult result = averaged.run();
  EXPECT_TRUE(averaged.flat_weights().equal(at::lerp(trained(2), trained(3), 0.5)));
  const Safetensors file = read_safetensors(result.file);
  for (const auto& [name, tensor] : weights(*averaged.network))
    EXPECT_TRUE(tensor.cpu().equal(file.tensors.at(name))) << name;
}

/// A training run of a network with BatchNorm.
struct NormalizedTraining : TinyTraining {
  /// TinyModel after a BatchNorm of its two inputs.
  struct Network : torch::nn::Module {
    explicit Network(std::shared_ptr<torch::nn::Module> rest)
        : norm(register_module("norm",
                               std::make_shared<BatchNorm>(2, BatchNormStatistics::kCollected,
                                                           at::TensorOptions(at::kFloat)))),
          rest(register_module("rest", std::move(rest))) {
      const torch::NoGradGuard no_graph;
      norm->weight.fill_(1);
      norm->bias.zero_();
    }
    std::shared_ptr<BatchNorm> norm;
    std::shared_ptr<torch::nn::Module> rest;
  };
  struct Step : TinyStep {
    bool mixes_samples() const override { return true; }
    NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
      auto& both = *network.as<Network>();
      NamedTensors inputs(part.tensors());
      inputs.set("image", both.norm->forward(part["image"]));
      return model.forward(*both.rest, inputs);
    }
  };

  NormalizedTraining() {
    network = std::make_shared<Network>(network);
    options.epochs = 3;
    options.keep = Keep::kLast;
    options.swa = SwaOptions{.start = 1, .learning_rate = {}};
    options.average = kEqual;
  }
  TrainingResult run() {
    return train(norm_step, *network, {train_data, validation}, options, policy, context);
  }

  Step norm_step;
};

/// The layer's input is the data itself, so its statistics are known: the plain mean over the
/// batches, which have equal sizes here.
TEST(Swa, RunningStatisticsAreRecomputedOnTheTrainingData) {
  NormalizedTraining training;
  training.options.batch_size = 10;
  training.run();
  at::Tensor sum = torch::zeros(2, at::kDouble);
  for (std::int64_t i = 0; i < 30; ++i)
    sum += training.train_data->sample(0, i)->at("image").to(at::kDouble);
  const at::Tensor found = training.network->named_buffers()["norm.running_mean"].cpu();
  // The statistics are means of ten float32 numbers below 2, averaged over three batches, with
  // fewer than 32 rounding errors.
  EXPECT_LE((found - sum / 30).abs().max().item<double>(), 32 * 2 * std::ldexp(1.0, -24));
}

TEST(Swa, StopDuringTheStatisticsPassResumesToTheSameResult) {
  NormalizedTraining whole, stopped, resumed;
  whole.run();
  stopped.context.on_progress = [&](const runner::Progress& progress) {
    if (progress.phase == "renew statistics" && progress.step == 2)
      stopped.context.is_canceled = true;
  };
  EXPECT_THROW(stopped.run(), runner::Canceled);
  std::filesystem::copy(stopped.context.node().folder, resumed.context.node().folder,
                        std::filesystem::copy_options::recursive);
  resumed.context.facts.resuming = true;
  resumed.run();
  EXPECT_TRUE(resumed.flat_weights().equal(whole.flat_weights()));
}

TEST(Swa, StatisticsPassDoesNotAffectTraining) {
  NormalizedTraining with, without;
  without.options.swa.reset();
  without.options.average.reset();
  with.run();
  without.run();
  EXPECT_EQ(with.context.values("train/loss"), without.context.values("train/loss"));
}

TEST(Swa, AverageOverDifferentEpochsIsRejected) {
  const SwaOptions swa{.start = 5, .learning_rate = {}};
  EXPECT_NO_THROW(check_averaged(swa, 0, 3, 2));
  EXPECT_NO_THROW(check_averaged(swa, 2, 7, 0));
  EXPECT_NO_THROW(check_averaged(swa, 3, 7, 4));  // stopped before the epoch's validation
  EXPECT_THROW(check_averaged(swa, 3, 7, 0), std::invalid_argument);
  EXPECT_THROW(check_averaged(swa, 1, 3, 2), std::invalid_argument);
}

}  // namespace
}  // namespace stages
