#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/train/parameter_groups.h"
#include "stages/train/step_execution.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// Returns the weights named `name`.
at::Tensor weight_of(const TinyTraining& training, const std::string& name) {
  return weights(*training.network).at(name).detach().clone();
}

/// Returns the name of the network's first parameter.
std::string first_name(const TinyTraining& training) {
  return training.network->named_parameters()[0].key();
}

void freeze_first(TinyTraining& training, std::int64_t epochs) {
  training.options.parameter_groups = {
      {.name = "late", .match = {first_name(training)}, .frozen_epochs = epochs}};
}

TEST(GradualUnfreezing, GroupKeepsItsWeightsUntilItsEpoch) {
  TinyTraining training;
  training.validation = nullptr;
  training.options.epochs = 2;
  freeze_first(training, 2);
  const std::string name = first_name(training);
  const at::Tensor before = weight_of(training, name), all = training.flat_weights();
  training.run();
  EXPECT_TRUE(weight_of(training, name).cpu().equal(before));
  EXPECT_FALSE(training.flat_weights().equal(all));
}

TEST(GradualUnfreezing, GroupIsTrainedFromItsEpoch) {
  TinyTraining training;
  training.validation = nullptr;
  training.options.epochs = 2;
  freeze_first(training, 1);
  const std::string name = first_name(training);
  const at::Tensor before = weight_of(training, name);
  training.run();
  EXPECT_FALSE(weight_of(training, name).cpu().equal(before));
}

TEST(GradualUnfreezing, UnfrozenGroupCountsItsOwnSteps) {
  at::Tensor x = torch::ones(3, torch::requires_grad()), y = torch::ones(3, torch::requires_grad());
  Optimizer optimizer(
      {{.name = "", .optimizer = kAdamW, .parameters = {{"x", x}}},
       {.name = "late", .optimizer = kAdamW, .parameters = {{"y", y}}, .frozen_epochs = 1}});
  EXPECT_TRUE(optimizer.freezes_groups());
  for (const std::int64_t epoch : {0, 1}) {
    optimizer.ask_for_gradients(epoch, [](std::string_view) { return true; });
    EXPECT_EQ(y.requires_grad(), epoch == 1);
    for (at::Tensor& parameter : std::vector{x, y}) parameter.mutable_grad().reset();
    (x * 2 + y).sum().backward();
    optimizer.prepare();
    optimizer.step();
    EXPECT_EQ(optimizer.state().contains("y.age"), epoch == 1);
  }
  EXPECT_EQ(optimizer.state().at("x.age").item<float>(), 2);
  EXPECT_EQ(optimizer.state().at("y.age").item<float>(), 1);
}

TEST(GradualUnfreezing, StepsInBackwardLeaveAFrozenGroupAlone) {
  TinyTraining after, during;
  for (TinyTraining* one : {&after, &during}) freeze_first(*one, 2);
  during.policy.optimizer_in_backward = true;
  after.run();
  during.run();
  EXPECT_TRUE(during.flat_weights().equal(after.flat_weights()));
}

TEST(GradualUnfreezing, NothingToTrainAtTheStartIsRejected) {
  TinyTraining training;
  training.options.parameter_groups = {{.name = "all", .match = {"**"}, .frozen_epochs = 1}};
  EXPECT_REFUSED(divide_parameters(*training.network, kAdamW, training.options.parameter_groups),
                 kOptionConflict, "/parameter_groups", "nothing to train");
}

}  // namespace
}  // namespace stages
