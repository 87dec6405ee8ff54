#pragma once

namespace stages {

/// What of a loss the current thread computes, "loss.covariance"; null: nothing. A plan calls
/// tensors by it.
inline thread_local constinit const char* running_loss_term = nullptr;

/// Says that `term` is computed as long as it lives; the inner one counts. The text must outlive
/// it. It costs two stores.
class [[nodiscard]] ScopedLossTerm {
 public:
  explicit ScopedLossTerm(const char* term) : before_(running_loss_term) {
    running_loss_term = term;
  }
  ~ScopedLossTerm() { running_loss_term = before_; }
  ScopedLossTerm(const ScopedLossTerm&) = delete;
  ScopedLossTerm& operator=(const ScopedLossTerm&) = delete;

 private:
  const char* const before_;
};

}  // namespace stages
