#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace stages {

/// The phase of a training run, for code that records its memory.
enum class StepPhase {
  kIdle,
  kForward,
  kLoss,
  kBackward,
  kUnscale,
  kHistogram,  ///< counting the gradients' values
  kClip,
  kOptimizer,
  kEvaluate,
  kCheckpointSave,
  kCheckpointLoad,
};

/// Returns "forward", "checkpoint save", …
std::string_view name(StepPhase phase);

/// Returns the phase of the current thread.
StepPhase current_phase();

/// Sets the phase of the current thread for the lifetime of this object. The innermost scope takes
/// precedence.
class [[nodiscard]] ScopedPhase {
 public:
  explicit ScopedPhase(StepPhase phase);
  ~ScopedPhase();
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

 private:
  const StepPhase before_;
};

/// Puts a network and all its modules into eval mode, and restores each module's mode when the
/// scope ends, even by an exception. The network must outlive the guard and keep its modules.
class [[nodiscard]] ScopedEval {
 public:
  explicit ScopedEval(torch::nn::Module& network);
  ~ScopedEval();
  ScopedEval(const ScopedEval&) = delete;
  ScopedEval& operator=(const ScopedEval&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> was_training_;  // parents before children
};

}  // namespace stages
