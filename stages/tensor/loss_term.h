#pragma once

namespace stages {

/// The loss term that the current thread is computing, such as "loss.covariance"; null: none. Plans
/// name tensors after it.
inline thread_local constinit const char* running_loss_term = nullptr;

/// Sets the running loss term to `term` for the lifetime of this object; the innermost scope takes
/// precedence. `term` must outlive the scope. Costs two stores.
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
