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

/// A module that can run in a number format of its own. LibTorch's modules have no hooks, so it
/// asks for the format itself, as the first thing that its forward does:
///
///   at::Tensor Linear::forward(const at::Tensor& x) const {
///     const OwnPrecision own(*this);
///     return torch::linear(own(x), weight, bias);
///   }
///
/// A module that does not derive from this runs as its caller does, and a recipe that names it is
/// refused.
class PrecisionModule : public torch::nn::Module {
 private:
  friend class OwnPrecision;
  friend class ScopedPrecisionMap;
  struct Own {
    Precision precision;
    c10::Device device;
  };
  std::optional<Own> own_;  // set by the innermost scope; nullopt: its caller's
};

/// `x` as operations in `precision` take it: a half type that is not the precision's own is cast,
/// to float32 for fp32, which autocast would not do. float32 is left to autocast, all else is left
/// alone.
at::Tensor taken_in(Precision precision, const at::Tensor& x);
NamedTensors taken_in(Precision precision, const NamedTensors& tensors);

/// While it lives, operations run in the module's own format, where a ScopedPrecisionMap gives it
/// one, and it is the running module (stages/tensor/module_names.h).
class [[nodiscard]] OwnPrecision {
 public:
  explicit OwnPrecision(const PrecisionModule& module);
  OwnPrecision(const OwnPrecision&) = delete;
  OwnPrecision& operator=(const OwnPrecision&) = delete;

  /// An input of the module, taken_in() its own precision where it has one.
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  const ScopedModule running_;
  std::optional<Precision> precision_;
  std::optional<ScopedPrecision> scope_;
};

/// Gives each PrecisionModule of a network the format that a map with rules says, for as long as
/// they go forward and backward (where activations may be computed again). All else runs in the
/// ScopedPrecision of whoever calls them:
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

/// Whether a rule for `module` can be obeyed: it, or all in it that have weights, are
/// PrecisionModules.
bool has_own_precision(const torch::nn::Module& module);

/// A module that makes one tensor of one tensor, and can do so once more in the backward pass
/// instead of keeping all that comes between the two:
///
///   class Mlp : public RecomputableModule {
///    private:
///     at::Tensor compute(const at::Tensor& x) const override;  // opens an OwnPrecision, as any
///     PrecisionModule
///   };
///
/// compute() uses no parameter, buffer or random layer of another module. What is computed again
/// has the same bits, and a gradient of the gradient is refused with std::logic_error. A module
/// that does not derive from this keeps its activations, and a recipe that names it is refused.
class RecomputableModule : public PrecisionModule {
 public:
  /// compute(x), once more in the backward pass where a ScopedActivationCheckpointing says so.
  at::Tensor forward(const at::Tensor& x) const;
  /// True for one of those repeated parts that a network consists of, which are recomputed each by
  /// itself.
  virtual bool is_block() const { return false; }

 protected:
  /// forward() of something else that the module makes of `x`, under the same conditions as
  /// compute().
  at::Tensor forward_of(const at::Tensor& x,
                        const std::function<at::Tensor(const at::Tensor&)>& compute) const;

 private:
  friend class ScopedActivationCheckpointing;
  virtual at::Tensor compute(const at::Tensor& x) const = 0;

  RecomputableModule* recomputed_ = nullptr;  // itself, where the innermost scope says so
  bool updates_twice_ = false;                // its buffers, as that scope says
};

/// Has those RecomputableModules of a network recomputed that `modules` names, by paths in it, for
/// as long as they go forward and backward; the others are not. One within another is recomputed as
/// a part of it, and in that once more by itself:
///
///   const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
///   step.encode(network, part);  // and its backward
///
/// The network must outlive the scope and keep its modules, and what it has made must go backward
/// within the scope.
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
