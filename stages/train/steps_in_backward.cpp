#include "stages/train/steps_in_backward.h"

#include <memory>

#include <torch/autograd.h>

#include "stages/plan/memory_trace.h"
#include "stages/train/optimizer.h"

namespace stages {
namespace {

namespace autograd = torch::autograd;

struct StepOfOne final : autograd::PostAccumulateGradHook {
  StepOfOne(Optimizer& optimizer, std::size_t parameter, std::optional<at::Tensor> skip, bool& has_begun)
      : optimizer(optimizer), parameter(parameter), skip(std::move(skip)), has_begun(has_begun) {}

  void operator()(const at::Tensor& tensor) override {
    has_begun = true;
    mark_gradient(tensor.grad());
    optimizer.step_one(parameter, skip);
    tensor.mutable_grad().reset();
  }

  Optimizer& optimizer;
  const std::size_t parameter;
  const std::optional<at::Tensor> skip;
  bool& has_begun;
};

}  // namespace

ScopedStepsInBackward::ScopedStepsInBackward(Optimizer& optimizer, const std::optional<at::Tensor>& skip,
                                             bool& has_begun)
    : parameters_(optimizer.parameters()) {
  optimizer.begin_steps();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<StepOfOne>(optimizer, i, skip, has_begun));
}

ScopedStepsInBackward::~ScopedStepsInBackward() {
  for (const at::Tensor& parameter : parameters_) autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

}  // namespace stages
