#include "stages/train/weight_average.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "tests/support/on_test_device.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// A weight with one element, a frozen one, and statistics.
struct Numbers : torch::nn::Module {
  Numbers()
      : weight(register_parameter("weight", torch::zeros(1, here()))),
        frozen(register_parameter("frozen", torch::ones(1, here()), /*requires_grad=*/false)),
        mean(register_buffer("mean", torch::zeros(1, here()))),
        count(register_buffer("count", torch::tensor(0, here()))) {}
  at::Tensor weight, frozen, mean, count;
};

double value(const NamedTensors& tensors, const std::string& name) {
  return tensors.at(name).item<double>();
}

TEST(WeightAverage, FollowsItsFormula) {
  Numbers network;
  WeightAverage average(network, {.decay = 0.9});
  double expected = 0;
  for (int step = 1; step <= 20; ++step) {
    const torch::NoGradGuard no_graph;
    network.weight.fill_(std::sin(step));
    network.mean.fill_(2 * step);
    average.update(step);
    expected = 0.9 * expected + 0.1 * std::sin(step);
  }
  EXPECT_NEAR(value(average.state(), "weight.average"), expected, 1e-6);
  EXPECT_FALSE(average.state().contains("frozen.average"));
  EXPECT_FALSE(average.state().contains("count.average"));
  EXPECT_GT(value(average.state(), "mean.average"), 10);
}

TEST(WeightAverage, WarmsUp) {
  Numbers network;
  WeightAverage average(network, {.decay = 0.5, .warmup = true});
  double expected = 0;
  for (int step = 1; step <= 12; ++step) {
    const torch::NoGradGuard no_graph;
    network.weight.fill_(step);
    average.update(step);
    const double decay = std::min(0.5, (1.0 + step) / (10.0 + step));
    expected = decay * expected + (1 - decay) * step;
    EXPECT_NEAR(value(average.state(), "weight.average"), expected, 1e-5);
  }
}

TEST(WeightAverage, ReplacesTheWeightsTemporarilyWithoutExtraMemory) {
  Numbers network;
  WeightAverage average(network, {.decay = 0.9, .is_result = true});
  const torch::NoGradGuard no_graph;
  network.weight.fill_(1);
  average.update(1);
  const void* const own = network.weight.data_ptr();
  try {
    const ScopedAverage scoped(&average);
    EXPECT_NEAR(network.weight.item<double>(), 0.1, 1e-7);
    EXPECT_TRUE(network.weight.requires_grad());
    throw std::runtime_error("in between");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(network.weight.item<double>(), 1);
  EXPECT_EQ(network.weight.data_ptr(), own);
  EXPECT_NEAR(value(average.state(), "weight.average"), 0.1, 1e-7);
}

TEST(WeightAverage, SavedStateIsRestored) {
  for (const bool is_result : {true, false}) {
    Numbers network, other;
    WeightAverage average(network, {.decay = 0.9, .is_result = is_result});
    WeightAverage again(other, {.decay = 0.9, .is_result = is_result});
    const torch::NoGradGuard no_graph;
    network.weight.fill_(1);
    average.update(1);
    NamedTensors model = weights(network), rest = {{"weight.momentum", torch::ones(1, here())}};
    average.save(model, rest);
    EXPECT_NEAR(value(model, "weight"), is_result ? 0.1 : 1.0, 1e-7);
    again.load(model, rest);
    EXPECT_EQ(value(model, "weight"), 1);
    EXPECT_EQ(rest.size(), 1);
    EXPECT_TRUE(again.state().at("weight.average").equal(average.state().at("weight.average")));
    NamedTensors without = weights(network), nothing;
    EXPECT_THROW(again.load(without, nothing), std::invalid_argument);
  }
}

TEST(WeightAverage, DoesNotAffectTrainingUnlessItIsTheResult) {
  TinyTraining with, without;
  with.options.average = {.decay = 0.9, .is_result = false};
  with.run();
  without.run();
  EXPECT_TRUE(with.flat_weights().equal(without.flat_weights()));
  for (const char* name : {"train/loss", "validation/loss"})
    EXPECT_EQ(with.context.values(name), without.context.values(name)) << name;
}

TEST(WeightAverage, IsValidatedSavedAndPassedOn) {
  for (const Keep keep : {Keep::kBest, Keep::kLast}) {
    TinyTraining with, without;
    with.options.average = {.decay = 0.9, .is_result = true};
    with.options.keep = without.options.keep = keep;
    const TrainingResult result = with.run();
    without.run();
    EXPECT_FALSE(with.flat_weights().equal(without.flat_weights()));
    EXPECT_EQ(with.context.values("train/loss"), without.context.values("train/loss"));
    EXPECT_NE(with.context.values("validation/loss"), without.context.values("validation/loss"));
    const Safetensors file = read_safetensors(result.file);
    for (const auto& [name, tensor] : weights(*with.network))
      EXPECT_TRUE(tensor.cpu().equal(file.tensors.at(name))) << name;
  }
}

TEST(WeightAverage, StopDuringValidationSavesTheTrainedWeights) {
  const auto average = [](TinyTraining& training) {
    training.options.average = {.decay = 0.9, .is_result = true};
  };
  TinyTraining whole, stopped, resumed;
  for (TinyTraining* training : {&whole, &stopped, &resumed}) average(*training);
  whole.run();
  stopped.context.on_progress = [&](const runner::Progress& progress) {
    if (progress.phase == "validate" && progress.epoch == 2) stopped.context.is_canceled = true;
  };
  stopped.options.batch_size = resumed.options.batch_size = whole.options.batch_size;
  EXPECT_THROW(stopped.run(), runner::Canceled);
  std::filesystem::copy(stopped.context.node().folder, resumed.context.node().folder,
                        std::filesystem::copy_options::recursive);
  resumed.context.facts.resuming = true;
  resumed.run();
  EXPECT_TRUE(resumed.flat_weights().equal(whole.flat_weights()));
}

}  // namespace
}  // namespace stages
