// Counts the work that each step of a training run requests from a GPU.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include "stages/train/step_execution.h"
#include "stages/weights/weights.h"
#include "tests/support/optimizer_rules.h"
#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/replayed_training.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_training.h"

namespace stand_in {
namespace {

constexpr std::int64_t kBatch = 8, kSteps = 8;

struct Variant {
  std::string name;
  std::function<void(stages::TinyTraining&)> change;
};

const std::vector<Variant>& variants() {
  using stages::TinyTraining;
  static const std::vector<Variant> all = {
      {"plain", [](TinyTraining&) {}},
      {"logged", [](TinyTraining& one) { one.options.log_every = 1; }},
      {"clipped", [](TinyTraining& one) { one.options.gradient_clip_norm = 0.1; }},
      {"averaged",
       [](TinyTraining& one) { one.options.average = stages::WeightAverageOptions{.decay = 0.9}; }},
      {"scaled", [](TinyTraining& one) { one.policy.precision.base = stages::Precision::kFp16; }},
      {"in parts", [](TinyTraining& one) { one.policy.micro_batch = 3; }},
      {"pinned", [](TinyTraining& one) { one.train_data->options.pinned = true; }},
      {"by SGD",
       [](TinyTraining& one) {
         one.options.optimizer = stages::SgdOptions{.learning_rate = 0.1, .momentum = 0.9};
       }},
  };
  return all;
}

Counts of_training(const Variant& variant, std::int64_t steps) {
  stages::TinyTraining training;
  training.context.facts.device = test_device();
  training.train_data = std::make_shared<TinyDataset>(steps * kBatch);
  training.train_data->options.workers = 0;
  training.validation = nullptr;
  training.options.epochs = 1;
  training.options.batch_size = kBatch;
  training.options.log_every = 1000;
  variant.change(training);
  const Counts before = counts();
  training.run();
  return counts() - before;
}

/// The work of `kSteps` steps in the middle of a training run: the difference between a longer and
/// a shorter one.
Counts of_steps(const Variant& variant) {
  const Counts shorter = of_training(variant, kSteps);
  return of_training(variant, 2 * kSteps) - shorter;
}

TEST(SteadyState, HostWaitsForNoStepWithoutMetrics) {
  for (const Variant& variant : variants()) {
    if (variant.name != "logged") EXPECT_EQ(of_steps(variant).waits, 0) << variant.name;
  }
}

/// The work of the steps of each variant if every `log_every`-th step has metrics.
Counts of_steps_with_metrics(const Variant& variant, std::int64_t log_every) {
  return of_steps({variant.name, [&](stages::TinyTraining& training) {
                     variant.change(training);
                     training.options.log_every = log_every;
                   }});
}

TEST(SteadyState, HostWaitsForStepsWithMetricsWhileTheGpuHasWork) {
  for (const Variant& variant : variants()) {
    for (const std::int64_t log_every : {1, 4}) {
      const Counts steps = of_steps_with_metrics(variant, log_every);
      EXPECT_EQ(steps.waits, kSteps / log_every) << variant.name << ", every " << log_every;
      EXPECT_GE(steps.left_by_waits, steps.launches / log_every)
          << variant.name << ": while the host waits, the GPU has the work of a whole step";
    }
  }
}

TEST(SteadyState, OnlyBatchesAreCopiedAndOnlyFromPinnedMemory) {
  const Variant& plain = variants().front();
  const Counts steps = of_steps(plain);
  constexpr std::int64_t kOfSample = 2 * sizeof(float) + sizeof(std::int64_t);
  EXPECT_EQ(steps.bytes_to_gpu, kSteps * kBatch * kOfSample);
  for (const Variant& variant : variants())
    EXPECT_EQ(of_steps(variant).pageable_copies, 0) << variant.name;
}

TEST(SteadyState, OffloadedStateIsCopiedFromAndToPinnedMemory) {
  const Counts steps = of_steps(
      {"offloaded", [](stages::TinyTraining& one) { one.policy.offloads_optimizer = true; }});
  EXPECT_GT(steps.copies_to_host, kSteps) << "more than the metrics";
  EXPECT_EQ(steps.pageable_copies, 0);
}

TEST(SteadyState, BatchesAreCopiedWhileTheGpuComputesThePreviousStep) {
  constexpr std::int64_t kInputs = 2;
  for (const Variant& variant : variants())
    EXPECT_EQ(of_steps(variant).copies_ahead, kSteps * kInputs) << variant.name;
}

TEST(SteadyState, OneCopyPerStepBringsItsMetricsToTheHost) {
  for (const Variant& variant : variants())
    EXPECT_EQ(of_steps(variant).copies_to_host, kSteps) << variant.name;
}

/// Vectors; the loss is the sum of their products with an input.
struct ManyVectors : torch::nn::Module {
  explicit ManyVectors(int count) {
    for (int i = 0; i < count; ++i)
      all.push_back(
          register_parameter("p" + std::to_string(i), at::ones({4}, at::Device(test_device()))));
  }
  std::vector<at::Tensor> all;
};

/// The launches of a second commit, after which a network of `count` parameters is averaged.
std::int64_t launches_of_commit(const stages::OptimizerOptions& rule, int count) {
  const at::Device device(test_device());
  ManyVectors network(count);
  stages::Optimizer optimizer(rule, stages::trained_parameters(network));
  optimizer.set_rates({{.learning_rate = 0.1, .momentum = {}}});
  stages::WeightAverage average(network, {.decay = 0.9});
  const at::Tensor skip = at::zeros({}, device);
  Counts before;
  for (int step = 0; step < 3; ++step) {
    for (at::Tensor& parameter : network.all) parameter.mutable_grad() = at::ones({4}, device);
    before = counts();
    const at::Tensor scratch = optimizer.prepare();
    const at::Tensor norm = stages::global_norm(optimizer.gradients());
    optimizer.step(skip, stages::clip_divisor(norm, 1.0), scratch);
    average.update(step + 1);
  }
  return (counts() - before).launches;
}

TEST(SteadyState, LaunchesDoNotGrowWithTheNumberOfParameters) {
  for (const stages::OptimizerOptions& rule :
       {stages::OptimizerOptions(stages::adamw(0.1)),
        stages::OptimizerOptions(stages::SgdOptions{.learning_rate = 0.1}),
        stages::OptimizerOptions(stages::SgdOptions{.learning_rate = 0.1, .momentum = 0.9})})
    EXPECT_EQ(launches_of_commit(rule, 40), launches_of_commit(rule, 2)) << rule.index();
}

/// TinyStep on a network with `layers` layers, each with a BatchNorm.
struct DeepStep final : TinyStep {
  bool mixes_samples() const override { return true; }
  static std::shared_ptr<torch::nn::Module> network(int layers) {
    torch::manual_seed(7);
    torch::nn::Sequential network(TinyLinear(2, 8, at::kCPU));
    for (int layer = 0; layer < layers; ++layer) {
      network->push_back(torch::nn::BatchNorm1d(8));
      network->push_back(torch::nn::Tanh());
      network->push_back(TinyLinear(8, 8, at::kCPU));
    }
    network->push_back(TinyLinear(8, 3, at::kCPU));
    return network.ptr();
  }
};

/// The launches of eight replayed steps.
std::int64_t launches_of_layers(int layers, const Change& change) {
  return of_eight_steps(true,
                        [&](Replayed& training) {
                          change(training);
                          const auto network = DeepStep::network(layers);
                          stages::train(DeepStep(), *network, {training.train_data, nullptr},
                                        training.options, training.policy, training.context);
                          EXPECT_EQ(training.recorded(), 1);
                        })
      .launches;
}

TEST(SteadyState, LaunchesOfAReplayedStepDoNotGrowWithTheNumberOfLayers) {
  for (const Change& change : {Change([](Replayed&) {}), Change([](Replayed& one) {
                                 one.options.gradient_clip_norm = 0.1;
                                 one.options.average = stages::WeightAverageOptions{.decay = 0.9};
                                 one.policy.precision.base = stages::Precision::kBf16;
                               })}) {
    const std::int64_t launches = launches_of_layers(40, change);
    EXPECT_EQ(launches, launches_of_layers(4, change));
    EXPECT_LE(launches, 8 * 34);
  }
}

}  // namespace
}  // namespace stand_in
