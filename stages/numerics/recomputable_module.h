#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "stages/numerics/activation_checkpointing.h"
#include "stages/numerics/precision_module.h"

namespace stages {

/// A module that makes one tensor of one tensor, and can do so once more in the backward pass instead of keeping all
/// that comes between the two:
///
///   class Mlp : public RecomputableModule {
///    private:
///     at::Tensor compute(const at::Tensor& x) const override;  // opens an OwnPrecision, as any PrecisionModule
///   };
///
/// compute() uses no parameter, buffer or random layer of another module. What is computed again has the same bits, and
/// a gradient of the gradient is refused with std::logic_error. A module that does not derive from this keeps its
/// activations, and a recipe that names it is refused.
class RecomputableModule : public PrecisionModule {
 public:
  /// compute(x), once more in the backward pass where a ScopedActivationCheckpointing says so.
  at::Tensor forward(const at::Tensor& x) const;
  /// True for one of those repeated parts that a network consists of, which are recomputed each by itself.
  virtual bool is_block() const { return false; }

 protected:
  /// forward() of something else that the module makes of `x`, under the same conditions as compute().
  at::Tensor forward_of(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& compute) const;

 private:
  friend class ScopedActivationCheckpointing;
  virtual at::Tensor compute(const at::Tensor& x) const = 0;

  RecomputableModule* recomputed_ = nullptr;  // itself, where the innermost scope says so
  bool updates_twice_ = false;                // its buffers, as that scope says
};

/// Has those RecomputableModules of a network recomputed that `modules` names, by paths in it, for as long as they go
/// forward and backward; the others are not. One within another is recomputed as a part of it, and in that once more by
/// itself:
///
///   const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
///   step.encode(network, part);  // and its backward
///
/// The network must outlive the scope and keep its modules, and what it has made must go backward within the scope.
class [[nodiscard]] ScopedActivationCheckpointing {
 public:
  ScopedActivationCheckpointing(torch::nn::Module& network, const ActivationCheckpointing& modules);
  ~ScopedActivationCheckpointing();
  ScopedActivationCheckpointing(const ScopedActivationCheckpointing&) = delete;
  ScopedActivationCheckpointing& operator=(const ScopedActivationCheckpointing&) = delete;

 private:
  struct Before {
    RecomputableModule* module;
    RecomputableModule* recomputed;
    bool updates_twice;
  };
  std::vector<Before> before_;
};

}  // namespace stages
