#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/determinism.h"

namespace stages {

/// Sets LibTorch's determinism mode while this object lives. kStrict: only deterministic
/// algorithms; other operations throw. kWarn: each nondeterministic operation that this thread
/// calls is reported to `tell` once. kOff: LibTorch's defaults. The destructor restores the
/// previous settings.
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

/// The result of use_cublas_workspace().
struct CublasWorkspace {
  std::optional<std::string> set;  ///< the value that was set, if the user had not set one
  std::optional<runner::Diagnostic> complaint;
};

/// Sets CUBLAS_WORKSPACE_CONFIG, unless `determinism` is kOff or the user has set it: cuBLAS is
/// bitwise reproducible only if the variable has a suitable value when cuBLAS starts. Call this
/// from one thread before a GPU is used. If the user has set an unsuitable value, the result is an
/// error or, with kWarn, a warning.
CublasWorkspace use_cublas_workspace(runner::Determinism determinism);

}  // namespace stages
