#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/determinism.h"

namespace stages {

/// While it lives, LibTorch does as `determinism` says: kStrict: deterministic algorithms alone,
/// another operation throws; kWarn: such an operation is handed to `tell`, once each, if the thread
/// that made this asked for it; kOff: LibTorch's own defaults. Puts back what was.
class ScopedDeterminism {
 public:
  ScopedDeterminism(runner::Determinism determinism,
                    std::function<void(const std::string& operation)> tell);
  ~ScopedDeterminism();
  ScopedDeterminism(const ScopedDeterminism&) = delete;
  ScopedDeterminism& operator=(const ScopedDeterminism&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What became of CUBLAS_WORKSPACE_CONFIG.
struct CublasWorkspace {
  std::optional<std::string> set;  ///< to this, because the user had not set it
  std::optional<runner::Diagnostic> complaint;
};

/// cuBLAS gives the same bits every time only if that variable says so when it starts, so this is
/// to be called before a GPU is used, and by one thread. Sets the variable unless `determinism` is
/// kOff or the user has set it; a value of the user's that does not do is an error, or with kWarn a
/// warning.
CublasWorkspace use_cublas_workspace(runner::Determinism determinism);

}  // namespace stages
