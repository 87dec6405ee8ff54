#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/tensor/named_tensors.h"
#include "stages/train/host_block.h"
#include "stages/train/schedule.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// Stochastic gradient descent, with torch's conventions for momentum, dampening and Nesterov's
/// form.
struct SgdOptions {
  double learning_rate = 0;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;  ///< added to the gradient
  bool operator==(const SgdOptions&) const = default;
};

/// Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019).
struct AdamOptions {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  bool amsgrad = false;
  bool decoupled = false;  ///< AdamW: weights shrink by learning_rate · weight_decay; else it is
                           ///< added to the gradient
  bool operator==(const AdamOptions&) const = default;
};

using OptimizerOptions = std::variant<SgdOptions, AdamOptions>;

/// The rate before any schedule.
double learning_rate(const OptimizerOptions& options);

/// Reads a mapping of schemas/train/optimizer/; contradictions become errors of `reader`.
OptimizerOptions read_optimizer(runner::ConfigReader& reader);

/// Parameters that follow one rule at one rate.
struct ParameterGroup {
  std::string name;  ///< for the records; empty for the only one
  OptimizerOptions optimizer;
  NamedTensors parameters;
};

/// Moves parameters along their gradients, by LibTorch's fused kernels on the CPU and on GPUs.
///
/// prepare() allocates whatever step() will write, so that step(), which must not fail halfway,
/// allocates nothing:
///
///   const at::Tensor scratch = optimizer.prepare();
///   step(skip, divisor, scratch);
///
/// Its state may lie in the host's memory between steps; then step() brings it to the device a
/// piece at a time, no larger than that of the largest parameter, steps the parameters of that
/// piece, and puts it back. The bits are the same.
///
/// A parameter without a gradient is left alone and its state does not age; so is every parameter
/// in a step that is skipped, whose next one is its first if it had none before.
class Optimizer {
 public:
  /// At least one group, whose optimizers differ in the learning rate and the weight decay alone.
  /// The parameters are floating-point leaves, all on one device; they are shared, not copied.
  /// `offloads`: the state lies in the host's memory, all but the ages.
  explicit Optimizer(const std::vector<ParameterGroup>& groups, bool offloads = false);
  Optimizer(OptimizerOptions options, NamedTensors parameters, bool offloads = false);

  /// Makes the state of parameters that have a gradient for the first time. Waits for a GPU only
  /// after a step that was the first for some of them and might have been skipped. Returns the
  /// device's memory that step() needs for a state that is not there; undefined: none.
  at::Tensor prepare();

  /// Has those parameters ask for a gradient whose name is `wanted`, and no other. A step leaves
  /// the others alone.
  void ask_for_gradients(const std::function<bool(std::string_view name)>& wanted);

  /// The names of the groups, and their rates before any schedule.
  const std::vector<std::string>& groups() const { return names_; }
  std::vector<double> learning_rates() const;

  /// The rates of the groups in every step() from here on; before that, those of their options.
  void set_rates(std::vector<Rates> rates);
  const std::vector<Rates>& rates() const { return rates_; }

  /// One update with the gradients in .grad, at the rates of each group. `skip`, a float32 scalar
  /// on the parameters' device, makes it do nothing when it is 1: a verdict that the host need not
  /// wait for. `divisor`, a scalar of the gradients' type, divides the gradients first, in place:
  /// what clips them, in the same pass over memory where they are float32. `scratch` is what
  /// prepare() has returned.
  void step(const std::optional<at::Tensor>& skip = {}, std::optional<at::Tensor> divisor = {},
            const at::Tensor& scratch = {});

  /// prepare() and step() of one parameter after another, by their places among parameters(),
  /// instead of both: as soon as its gradient is there. Each may run out of memory, when others
  /// have been stepped. begin_steps() comes before the first.
  void begin_steps();
  void step_one(std::size_t parameter, const std::optional<at::Tensor>& skip);

  /// The parameters, in the order of the groups.
  std::vector<at::Tensor> parameters() const;
  /// The gradients that step() will use, as they are.
  std::vector<at::Tensor> gradients() const;

  /// Everything that must be saved to continue as if never interrupted: "<parameter>.momentum", or
  /// "<parameter>.mean",
  /// ".square", ".maximum" and ".age". Shared, not copied. A parameter that was never stepped has
  /// none. Waits for a GPU whose state lies in the host's memory.
  NamedTensors state() const;
  /// The part of it that lies on the device. Does not wait.
  NamedTensors state_on_device() const;
  /// Bytes that lie in the host's memory.
  std::int64_t offloaded_bytes() const;

  /// Takes over copies of what state() gave, in place of whatever was there; a parameter it does
  /// not name starts without state. Throws std::invalid_argument, and changes nothing, if that is
  /// not the state of such an optimizer.
  void load_state(const NamedTensors& state);

 private:
  /// What is kept for one parameter; tensors that the rule does not need are undefined.
  struct Slot {
    std::string name;
    std::size_t group;
    at::Tensor parameter;
    at::Tensor momentum;               ///< SGD
    at::Tensor mean, square, maximum;  ///< Adam: first and second moment, the largest second moment
    at::Tensor age;                    ///< Adam: steps taken, a float32 where the kernels read it
    bool ready = false, fresh = true;  ///< state allocated; no step taken yet
    bool undecided = false;            ///< not fresh if first_skip_ is 0
    std::size_t piece = 0;             ///< in which the state lies, where it is offloaded
  };
  /// A tensor of every slot, under the name it is saved by.
  using Part = std::pair<const char*, at::Tensor Slot::*>;

  /// What lies in the host's memory and is brought together: the parts of some slots, one slot
  /// after another.
  struct Piece {
    HostBlock block;
    std::vector<std::size_t> slots;
  };

  /// The tensors that the rule needs, and those of them that may lie in the host's memory.
  std::vector<Part> parts() const;
  std::vector<Part> movable_parts() const;
  /// Makes the state of these slots, all zero.
  void make_state(const std::vector<std::size_t>& slots);
  /// Likewise in the host's memory, in pieces of at most the bytes of the largest slot, each of one
  /// group and type.
  void make_pieces(const std::vector<std::size_t>& slots);
  void make_piece(std::vector<std::size_t> slots);
  /// Gives each slot a piece of its own.
  void divide_pieces();
  /// Those of them that have a gradient.
  std::vector<Slot*> with_gradient(const std::vector<std::size_t>& slots);
  /// One update of such slots, all of one group, whose state is on the device.
  void update(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
              const std::optional<at::Tensor>& divisor);
  void update_piece(Piece& piece, const at::Tensor& scratch, const std::optional<at::Tensor>& skip,
                    const std::optional<at::Tensor>& divisor);
  NamedTensors state_of(const std::vector<Part>& parts) const;
  /// Notes that a step is taken, which `skip` may undo.
  static void take_step(Slot& slot, const std::optional<at::Tensor>& skip);
  /// True if the latest step was skipped; asked only where it was the first of some parameter.
  bool skipped_first_steps() const;
  /// Makes those parameters fresh again whose first step was skipped.
  void decide_first_steps();
  /// One of them for a parameter: all zero.
  static at::Tensor zeros(const Slot& slot, const Part& part);
  void step_sgd(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                const std::optional<at::Tensor>& divisor, bool fresh);
  void step_adam(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                 const std::optional<at::Tensor>& divisor);

  std::vector<std::string> names_;         // of the groups
  std::vector<OptimizerOptions> options_;  // of each group
  std::vector<Rates> rates_;               // of each group, at the next step
  std::vector<Slot> slots_;
  bool offloads_ = false;
  std::vector<Piece> pieces_;  // of all slots whose state is made, where it is offloaded
  at::Tensor first_skip_;      // of the latest step, if it was the first of some parameter
  at::Tensor
      one_;  // what ages are counted up by: torch takes memory for a number, for a tensor none
};

}  // namespace stages
