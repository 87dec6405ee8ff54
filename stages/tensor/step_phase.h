#pragma once

#include <string_view>

namespace stages {

/// What a training is doing, for whoever records its memory.
enum class StepPhase {
  kIdle,
  kForward,
  kLoss,
  kBackward,
  kUnscale,
  kClip,
  kOptimizer,
  kEvaluate,
  kCheckpointSave,
  kCheckpointLoad,
};

/// "forward", "checkpoint save", …
std::string_view name(StepPhase phase);

/// What the current thread is doing.
StepPhase current_phase();

/// Says what the current thread does as long as it lives. The inner one counts.
class [[nodiscard]] ScopedPhase {
 public:
  explicit ScopedPhase(StepPhase phase);
  ~ScopedPhase();
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

 private:
  const StepPhase before_;
};

}  // namespace stages
