#include "stages/train/observed_training.h"

#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/train/training_log.h"
#include "stages/weights/weights.h"

namespace stages {

ObservedTraining::ObservedTraining(const runner::RunContext& context)
    : context_(context), observer_(dynamic_cast<StepObserver*>(context.node().observer)) {}

void ObservedTraining::show(std::string_view phase, std::int64_t step,
                            const NamedTensors& tensors) const {
  const std::string node = context_.node().folder.filename();
  for (const auto& [name, tensor] : tensors) observer_->see({node, step, phase}, name, tensor);
}

void ObservedTraining::show_gradient(std::int64_t step, const Means& means,
                                     const torch::nn::Module& network) const {
  NamedTensors losses = {{"loss", torch::tensor(means.loss, torch::kDouble)}}, gradients;
  for (const auto& [name, value] : means.terms)
    losses.set(name, torch::tensor(value, torch::kDouble));
  for (const auto& [name, weight] : trained_parameters(network)) {
    if (weight.grad().defined()) gradients.set(name, weight.grad());
  }
  show("loss", step, losses);
  show("gradient", step, gradients);
}

}  // namespace stages
