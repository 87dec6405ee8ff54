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

/// A module that can run in its own number format. LibTorch's modules have no hooks, so the module
/// asks for the format itself, first thing in its forward:
///
///   at::Tensor Linear::forward(const at::Tensor& x) const {
///     const OwnPrecision own(*this);
///     return torch::linear(own(x), weight, bias);
///   }
///
/// A module that does not derive from this runs in its caller's format, and a recipe that names it
/// is refused.
class PrecisionModule : public torch::nn::Module {
 public:
  /// Whether a ScopedPrecisionMap gives it a format of its own.
  bool has_format() const { return own_.has_value(); }

 private:
  friend class OwnPrecision;
  friend class ScopedPrecisionMap;
  struct Own {
    Precision precision;
    c10::Device device;
  };
  std::optional<Own> own_;  // set by the innermost scope; nullopt: its caller's
};

/// `x` as operations in `precision` accept it. A half type other than the precision's own is cast,
/// for fp32 to float32, which autocast would not do. float32 is left to autocast; all else is
/// unchanged.
at::Tensor taken_in(Precision precision, const at::Tensor& x);
NamedTensors taken_in(Precision precision, const NamedTensors& tensors);

/// While it lives, operations run in the module's own format if a ScopedPrecisionMap gives it one,
/// and the module is the running module (stages/tensor/module_names.h).
class [[nodiscard]] OwnPrecision {
 public:
  explicit OwnPrecision(const PrecisionModule& module);
  OwnPrecision(const OwnPrecision&) = delete;
  OwnPrecision& operator=(const OwnPrecision&) = delete;

  /// An input of the module, converted by taken_in() to its own precision if it has one.
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  const ScopedModule running_;
  std::optional<Precision> precision_;
  std::optional<ScopedPrecision> scope_;
};

/// Gives each PrecisionModule of a network the format that a map with rules assigns, for its
/// forward and backward passes (where activations may be recomputed). All else runs in the caller's
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

/// Whether a rule for `module` can be obeyed: it is a PrecisionModule, or all modules in it that
/// have weights are.
bool has_own_precision(const torch::nn::Module& module);

/// A module that makes one tensor from one tensor. It can recompute it in the backward pass instead
/// of keeping the activations in between:
///
///   class Mlp : public RecomputableModule {
///    private:
///     // opens an OwnPrecision, as any PrecisionModule
///     at::Tensor compute(const at::Tensor& x) const override;
///   };
///
/// compute() uses no parameter, buffer or random layer of another module. The recomputed values
/// have the same bits. A gradient of the gradient is refused with std::logic_error. A module that
/// does not derive from this keeps its activations, and a recipe that names it is refused.
class RecomputableModule : public PrecisionModule {
 public:
  /// compute(x), repeated in the backward pass if a ScopedActivationCheckpointing says so.
  at::Tensor forward(const at::Tensor& x) const;
  /// True for the repeated parts of a network, each of which is recomputed by itself.
  virtual bool is_block() const { return false; }
  /// Whether the innermost ScopedActivationCheckpointing recomputes it.
  bool is_recomputed() const { return recomputed_ != nullptr; }

 protected:
  /// forward() for another function of `x` in this module, under the same conditions as compute().
  at::Tensor forward_of(const at::Tensor& x,
                        const std::function<at::Tensor(const at::Tensor&)>& compute) const;

 private:
  friend class ScopedActivationCheckpointing;
  virtual at::Tensor compute(const at::Tensor& x) const = 0;

  RecomputableModule* recomputed_ = nullptr;  // itself if the innermost scope recomputes it
  bool updates_twice_ = false;                // of its buffers, as that scope says
};

/// Makes the RecomputableModules of a network that `modules` names, by their paths in it, recompute
/// their activations, for their forward and backward passes; the others do not. One inside another
/// is recomputed as part of the outer one and, within that, again by itself:
///
///   const ScopedActivationCheckpointing recomputed(network, {.blocks = true});
///   step.encode(network, part);  // and its backward
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
