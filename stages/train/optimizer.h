#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/named_tensors.h"
#include "stages/train/optimizer_options.h"
#include "stages/train/schedule.h"

namespace stages {

/// Moves parameters along their gradients, by LibTorch's fused kernels on the CPU and on GPUs.
///
/// prepare() allocates whatever step() will write, so that step(), which must not fail halfway, allocates nothing.
/// A parameter without a gradient is left alone and its state does not age.
class Optimizer {
 public:
  /// `parameters` are floating-point leaves, all on one device; they are shared, not copied.
  Optimizer(OptimizerOptions options, NamedTensors parameters);

  /// Makes the state of parameters that have a gradient for the first time.
  void prepare();

  /// One update with the gradients in .grad. `skip`, a float32 scalar on the parameters' device, makes it do nothing
  /// when it is 1: a verdict that the host need not wait for.
  void step(const Rates& rates, const std::optional<at::Tensor>& skip = {});

  /// The gradients that step() will use, as they are.
  std::vector<at::Tensor> gradients() const;

  /// Everything that must be saved to go on as if never interrupted: "<parameter>.momentum", or "<parameter>.mean",
  /// ".square", ".maximum" and ".age". Shared, not copied. A parameter that was never stepped has none.
  NamedTensors state() const;

  /// Takes over copies of what state() gave, in place of whatever was there; a parameter it does not name starts anew.
  /// Throws std::invalid_argument, and changes nothing, if that is not the state of such an optimizer.
  void load_state(const NamedTensors& state);

 private:
  /// What is kept for one parameter; tensors that the rule does not need are undefined.
  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor momentum;               ///< SGD
    at::Tensor mean, square, maximum;  ///< Adam: first and second moment, the largest second moment
    at::Tensor age;                    ///< Adam: steps taken, a float32 where the kernels read it
    bool ready = false, fresh = true;  ///< state allocated; no step taken yet
  };
  /// A tensor of every slot, under the name it is saved by.
  using Part = std::pair<const char*, at::Tensor Slot::*>;

  /// The tensors that the rule needs.
  std::vector<Part> parts() const;
  /// One of them for a parameter: all zero.
  static at::Tensor zeros(const Slot& slot, const Part& part);
  void step_sgd(const SgdOptions& options, const Rates& rates, const std::optional<at::Tensor>& skip, bool fresh);
  void step_adam(const AdamOptions& options, const Rates& rates, const std::optional<at::Tensor>& skip);

  const OptimizerOptions options_;
  std::vector<Slot> slots_;
  at::Tensor one_;  // what ages are counted up by: torch takes memory for a number, for a tensor none
};

}  // namespace stages
