#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "stages/tensor/module_names.h"
#include "stages/tensor/named_tensors.h"
#include "stages/numerics/precision_map.h"

namespace stages {

/// A module that can run in a number format of its own. LibTorch's modules have no hooks, so it asks for the format
/// itself, as the first thing that its forward does:
///
///   at::Tensor Linear::forward(const at::Tensor& x) const {
///     const OwnPrecision own(*this);
///     return torch::linear(own(x), weight, bias);
///   }
///
/// A module that does not derive from this runs as its caller does, and a recipe that names it is refused.
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

/// `x` as operations in `precision` take it: a half type that is not the precision's own is cast, to float32 for fp32,
/// which autocast would not do. float32 is left to autocast, all else is left alone.
at::Tensor taken_in(Precision precision, const at::Tensor& x);
NamedTensors taken_in(Precision precision, const NamedTensors& tensors);

/// While it lives, operations run in the module's own format, where a ScopedPrecisionMap gives it one, and it is the
/// running module (stages/tensor/module_names.h).
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

/// Gives each PrecisionModule of a network the format that a map with rules says, for as long as they go forward and
/// backward (where activations may be computed again). All else runs in the ScopedPrecision of whoever calls them:
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

/// Whether a rule for `module` can be obeyed: it, or all in it that have weights, are PrecisionModules.
bool has_own_precision(const torch::nn::Module& module);

}  // namespace stages
