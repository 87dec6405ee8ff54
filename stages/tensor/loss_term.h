#pragma once

namespace stages {

/// The term of a loss that the current thread computes, "loss.covariance"; null: none. Plans name
/// tensors by it.
inline thread_local constinit const char* running_loss_term = nullptr;

/// Sets the running loss term to `term` while it lives; the innermost scope counts. The text must
/// outlive it. It costs two stores.
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
