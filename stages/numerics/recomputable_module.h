#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "stages/numerics/activation_checkpointing.h"
#include "stages/numerics/precision_map.h"
#include "stages/tensor/module_names.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// A module that can run in its own number format. LibTorch's modules have no hooks, so forward()
/// itself must start by opening an OwnPrecision:
///
///   at::Tensor Linear::forward(const at::Tensor& x) const {
///     const OwnPrecision own(*this);
///     return torch::linear(own(x), weight, bias);
///   }
///
/// A module that does not derive from PrecisionModule runs in its caller's format. A recipe that
/// sets the precision of such a module is rejected.
class PrecisionModule : public torch::nn::Module {
 public:
  /// True if a ScopedPrecisionMap assigns this module a format.
  bool has_format() const { return own_.has_value(); }

 private:
  friend class OwnPrecision;
  friend class ScopedPrecisionMap;
  struct Own {
    Precision precision;
    c10::Device device;
  };
  std::optional<Own> own_;  // set by the innermost scope; nullopt: the caller's
};

/// Converts `x` for operations in `precision`. A half-precision tensor of another type is cast: to
/// the precision's type or, for fp32, to float32, which autocast would not do. Autocast handles
/// float32 tensors; all others are returned unchanged.
at::Tensor taken_in(Precision precision, const at::Tensor& x);
NamedTensors taken_in(Precision precision, const NamedTensors& tensors);

/// While this object lives, operations run in the module's own format if a ScopedPrecisionMap
/// assigns it one, and the module is the running module (stages/tensor/module_names.h).
class [[nodiscard]] OwnPrecision {
 public:
  explicit OwnPrecision(const PrecisionModule& module);
  OwnPrecision(const OwnPrecision&) = delete;
  OwnPrecision& operator=(const OwnPrecision&) = delete;

  /// Returns an input of the module, converted by taken_in() if the module has its own precision.
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  const ScopedModule running_;
  std::optional<Precision> precision_;
  std::optional<ScopedPrecision> scope_;
};

/// Assigns each PrecisionModule of a network its format from a map with rules, for forward and
/// backward passes (which may recompute activations). All other operations run in the caller's
/// ScopedPrecision:
///
///   const ScopedPrecisionMap modules(network, map, device);
///   {
///     const ScopedPrecision precision(map.base, device);
///     const NamedTensors encoded = taken_in(map.base, step.encode(network, part));
///     step.loss(encoded, part);
///   }
///
/// The network must outlive the scope and keep its modules.
class [[nodiscard]] ScopedPrecisionMap {
 public:
  ScopedPrecisionMap(torch::nn::Module& network, const PrecisionMap& map, c10::Device device);
  ~ScopedPrecisionMap();
  ScopedPrecisionMap(const ScopedPrecisionMap&) = delete;
  ScopedPrecisionMap& operator=(const ScopedPrecisionMap&) = delete;

 private:
  std::vector<std::pair<PrecisionModule*, std::optional<PrecisionModule::Own>>> before_;
};

/// True if a rule for `module` can be followed: `module` is a PrecisionModule, or it contains some,
/// and every module in it with weights of its own is inside a PrecisionModule.
bool has_own_precision(const torch::nn::Module& module);

/// The weights of a module that have memory only while it runs. They have values between gather()
/// and release(), which may be nested.
class PassingWeights {
 public:
  virtual ~PassingWeights() = default;
  virtual void gather() = 0;
  virtual void release() noexcept = 0;
};

/// A module that maps one tensor to one tensor. In the backward pass it can recompute its
/// activations instead of saving them:
///
///   class Mlp : public RecomputableModule {
///    private:
///     // opens an OwnPrecision, like any PrecisionModule
///     at::Tensor compute(const at::Tensor& x) const override;
///   };
///
/// compute() must not use any parameter, buffer or random layer of another module. The recomputed
/// values are bitwise the same. Second derivatives throw std::logic_error. A module that does not
/// derive from RecomputableModule saves its activations, and a recipe that asks to recompute it is
/// rejected.
class RecomputableModule : public PrecisionModule {
 public:
  /// Returns compute(x). If a ScopedActivationCheckpointing selects this module, the backward pass
  /// calls compute() again.
  at::Tensor forward(const at::Tensor& x) const;
  /// True for the repeated parts of a network. `blocks` recomputes each of them separately.
  virtual bool is_block() const { return false; }
  /// True if the innermost ScopedActivationCheckpointing recomputes this module.
  bool is_recomputed() const { return recomputed_ != nullptr; }
  /// From now on, forward() and the backward pass gather the weights first, and release them at the
  /// end; null: this module has its weights. A forward pass with a graph throws std::logic_error
  /// unless it is recomputed: a graph must not keep such weights. `weights` is borrowed.
  void run_with(PassingWeights* weights) { weights_ = weights; }

 protected:
  /// Like forward(), but for another function of `x` in this module. The function must satisfy the
  /// same conditions as compute().
  at::Tensor forward_of(const at::Tensor& x,
                        const std::function<at::Tensor(const at::Tensor&)>& compute) const;

 private:
  friend class ScopedActivationCheckpointing;
  virtual at::Tensor compute(const at::Tensor& x) const = 0;

  RecomputableModule* recomputed_ = nullptr;  // `this` if the innermost scope recomputes it
  bool updates_twice_ = false;  // recomputing updates its buffers again; set by that scope
  PassingWeights* weights_ = nullptr;
};

/// Tells the RecomputableModules that `modules` selects by their paths in the network to recompute
/// their activations; other modules save theirs. A selected module inside another is recomputed as
/// part of the outer one and, within that, once more separately:
///
///   const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
///   step.encode(network, part);  // and its backward pass
///
/// The network must outlive the scope and keep its modules. The backward pass of its outputs must
/// run within the scope.
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
