#include "stages/tensor/step_phase.h"

#include <cassert>

#include <torch/nn/module.h>

namespace stages {
namespace {

thread_local StepPhase phase_of_thread = StepPhase::kIdle;

}  // namespace

std::string_view name(StepPhase phase) {
  switch (phase) {
    case StepPhase::kIdle:
      return "idle";
    case StepPhase::kForward:
      return "forward";
    case StepPhase::kLoss:
      return "loss";
    case StepPhase::kBackward:
      return "backward";
    case StepPhase::kUnscale:
      return "unscale";
    case StepPhase::kHistogram:
      return "gradient histograms";
    case StepPhase::kClip:
      return "clip";
    case StepPhase::kOptimizer:
      return "optimizer";
    case StepPhase::kEvaluate:
      return "evaluate";
    case StepPhase::kCheckpointSave:
      return "checkpoint save";
    case StepPhase::kCheckpointLoad:
      return "checkpoint load";
  }
  assert(false);
  return "";
}

StepPhase current_phase() { return phase_of_thread; }

ScopedPhase::ScopedPhase(StepPhase phase) : before_(phase_of_thread) { phase_of_thread = phase; }

ScopedPhase::~ScopedPhase() { phase_of_thread = before_; }

ScopedEval::ScopedEval(torch::nn::Module& network) {
  network.apply([this](torch::nn::Module& module) {
    was_training_.emplace_back(&module, module.is_training());
  });
  network.eval();
}

ScopedEval::~ScopedEval() {
  // train() also sets the mode of all children, so the loop sets a child's own mode after its
  // parent's.
  for (const auto& [module, training] : was_training_) module->train(training);
}

}  // namespace stages
