#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/determinism.h"

namespace stages {

/// Sets LibTorch's determinism while it lives. kStrict: only deterministic algorithms; other
/// operations throw. kWarn: such operations are reported to `tell`, once each, if the thread that
/// made this called them. kOff: LibTorch's defaults. Restores the previous setting.
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

/// The outcome for CUBLAS_WORKSPACE_CONFIG.
struct CublasWorkspace {
  std::optional<std::string> set;  ///< the value it was set to, because the user had not set it
  std::optional<runner::Diagnostic> complaint;
};

/// cuBLAS is bitwise reproducible only if that variable says so when it starts, so call this before
/// a GPU is used, from one thread. Sets the variable unless `determinism` is kOff or the user has
/// set it. An unsuitable value of the user's is an error or, with kWarn, a warning.
CublasWorkspace use_cublas_workspace(runner::Determinism determinism);

}  // namespace stages
