#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/ranks/state_shard.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/host_block.h"
#include "stages/train/schedule.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// Stochastic gradient descent, with torch's conventions for momentum, dampening and Nesterov
/// momentum.
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
  bool decoupled = false;  ///< AdamW: weights shrink by learning_rate · weight_decay; else weight
                           ///< decay is added to the gradient
  bool operator==(const AdamOptions&) const = default;
};

using OptimizerOptions = std::variant<SgdOptions, AdamOptions>;

/// The learning rate before any schedule.
double learning_rate(const OptimizerOptions& options);

/// Reads a mapping of schemas/train/optimizer/; contradictions become errors of `reader`.
OptimizerOptions read_optimizer(runner::ConfigReader& reader);

/// Parameters that share one update rule and learning rate.
struct ParameterGroup {
  std::string name;  ///< for the logs; empty if it is the only group
  OptimizerOptions optimizer;
  NamedTensors parameters;
};

/// Updates parameters by their gradients, with LibTorch's fused kernels on the CPU and on GPUs.
///
/// step() must not fail halfway, so prepare() allocates whatever step() will write:
///
///   const at::Tensor scratch = optimizer.prepare();
///   step(skip, divisor, scratch);
///
/// Its state may be kept in host memory between steps. Then step() copies it to the device piece by
/// piece, no piece larger than the state of the largest parameter, updates the parameters of that
/// piece, and copies it back. The bits are the same.
///
/// Its state may be divided among ranks. Then step() updates the parameters that this rank's part
/// is of; the caller brings the others from the ranks that update them.
///
/// A parameter without a gradient is left alone and its step count does not increase. The same
/// holds for every parameter in a skipped step: if it had no step before, its next one counts as
/// its first.
class Optimizer {
 public:
  /// Takes at least one group; the groups' optimizers differ only in learning rate and weight
  /// decay. The parameters are floating-point leaves, all on one device; they are shared, not
  /// copied. `offloads`: the state is kept in host memory, except the step counts. `shard`: of the
  /// parameters, ordered by group.
  explicit Optimizer(const std::vector<ParameterGroup>& groups, bool offloads = false,
                     StateShard shard = {});
  Optimizer(OptimizerOptions options, NamedTensors parameters, bool offloads = false);

  /// Allocates the state of parameters that have a gradient for the first time. Waits for a GPU
  /// only after a step that was the first for some of them and might have been skipped. Returns the
  /// device memory that step() needs for state that is not on the device; undefined: none.
  at::Tensor prepare();

  /// Sets requires_grad for exactly the parameters whose name is `wanted`. A step leaves the others
  /// alone.
  void ask_for_gradients(const std::function<bool(std::string_view name)>& wanted);

  /// The names of the groups, and their learning rates before any schedule.
  const std::vector<std::string>& groups() const { return names_; }
  std::vector<double> learning_rates() const;

  /// Sets the groups' learning rates for every step() from here on; before that, those of their
  /// options are used.
  void set_rates(std::vector<Rates> rates);
  const std::vector<Rates>& rates() const { return rates_; }

  /// One update with the gradients in .grad, at the learning rates of each group. `skip`, a float32
  /// scalar on the parameters' device, makes it do nothing if it is 1: the host need not wait for
  /// that decision. `divisor`, a scalar of the gradients' type, divides the gradients first, in
  /// place. It is used for clipping, and takes no extra pass over memory if they are float32.
  /// `scratch` is what prepare() returned.
  void step(const std::optional<at::Tensor>& skip = {}, std::optional<at::Tensor> divisor = {},
            const at::Tensor& scratch = {});

  /// Alternative to prepare() and step() that updates one parameter at a time, as soon as its
  /// gradient is there. Parameters are given by index into parameters(). Each call may run out of
  /// memory after others have been updated. Call begin_steps() before the first.
  void begin_steps();
  void step_one(std::size_t parameter, const std::optional<at::Tensor>& skip);

  /// The parameters, ordered by group.
  std::vector<at::Tensor> parameters() const;
  /// The gradients that step() will use, unmodified.
  std::vector<at::Tensor> gradients() const;

  /// All state needed to continue as if never interrupted: "<parameter>.momentum", or
  /// "<parameter>.mean", ".square", ".maximum" and ".age". Shared, not copied. A parameter that was
  /// never updated has none; what another rank keeps is left out. Waits for a GPU if its state is
  /// in host memory.
  NamedTensors state() const;
  /// What state() has on other ranks: names, types and shapes, on the Meta device.
  NamedTensors state_elsewhere() const;
  /// The parameters that it is of, or would be once they have been updated.
  std::vector<at::Tensor> parameters_elsewhere() const;
  /// Which rank keeps what state() or state_elsewhere() names so, or would once it has been
  /// updated; nullopt: no name of a state.
  std::optional<int> keeper_of(std::string_view name) const;
  /// The part of state() that is on the device. Does not wait.
  NamedTensors state_on_device() const;
  /// Bytes in host memory.
  std::int64_t offloaded_bytes() const;

  /// Loads copies of what state() and state_elsewhere() returned, on whatever ranks, replacing the
  /// current state; a parameter that `state` does not name starts without state. What another rank
  /// keeps may be on the Meta device. Throws std::invalid_argument, and changes nothing, if it
  /// is not the state of such an optimizer.
  void load_state(const NamedTensors& state);

 private:
  /// The state of one parameter; tensors that the rule does not need are undefined.
  struct Slot {
    std::string name;
    std::size_t group;
    at::Tensor parameter;
    at::Tensor momentum;               ///< SGD
    at::Tensor mean, square, maximum;  ///< Adam: first and second moment, the largest second moment
    at::Tensor age;                    ///< Adam: steps taken, as a float32 where the kernels read
                                       ///< it
    bool ready = false, fresh = true;  ///< state allocated; no step taken yet
    bool undecided = false;            ///< not fresh if first_skip_ is 0
    bool is_kept = true;               ///< the state: by this rank
    std::size_t piece = 0;             ///< the piece that holds the state, if offloaded
  };
  /// One tensor of every slot, with the name under which it is saved.
  using Part = std::pair<const char*, at::Tensor Slot::*>;

  /// A block of host memory that is copied as a whole: the parts of some slots, one slot after
  /// another.
  struct Piece {
    HostBlock block;
    std::vector<std::size_t> slots;
  };

  /// The tensors that the rule needs, and those of them that may be kept in host memory.
  std::vector<Part> parts() const;
  std::vector<Part> movable_parts() const;
  /// Allocates the state of these slots, all zero.
  void make_state(const std::vector<std::size_t>& slots);
  /// The same in host memory, in pieces of at most the bytes of the largest slot, each of one group
  /// and type.
  void make_pieces(const std::vector<std::size_t>& slots);
  void make_piece(std::vector<std::size_t> slots);
  /// Splits the pieces so that each slot has its own.
  void divide_pieces();
  /// The slots among these that have a gradient and are kept.
  std::vector<Slot*> with_gradient(const std::vector<std::size_t>& slots);
  /// One update of slots that are all in one group and have their state on the device.
  void update(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
              const std::optional<at::Tensor>& divisor);
  void update_piece(Piece& piece, const at::Tensor& scratch, const std::optional<at::Tensor>& skip,
                    const std::optional<at::Tensor>& divisor);
  /// Of the slots that have been updated, those that this rank keeps or the others.
  NamedTensors state_of(const std::vector<Part>& parts, bool kept) const;
  /// Records that a step is taken, which `skip` may undo.
  static void take_step(Slot& slot, const std::optional<at::Tensor>& skip);
  /// True if the latest step was skipped; queried only if it was the first for some parameter.
  bool skipped_first_steps() const;
  /// Marks parameters as fresh again if their first step was skipped.
  void decide_first_steps();
  /// A zero tensor for one part of a parameter's state.
  static at::Tensor zeros(const Slot& slot, const Part& part);
  /// Its type and shape, on the Meta device.
  static at::Tensor outline(const Slot& slot, const Part& part);
  void step_sgd(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                const std::optional<at::Tensor>& divisor, bool fresh);
  void step_adam(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                 const std::optional<at::Tensor>& divisor);

  std::vector<std::string> names_;         // of each group
  std::vector<OptimizerOptions> options_;  // of each group
  std::vector<Rates> rates_;               // of each group, at the next step
  std::vector<Slot> slots_;
  bool offloads_ = false;
  const StateShard shard_;
  std::vector<Piece> pieces_;  // of all slots whose state is allocated, if offloaded
  at::Tensor first_skip_;      // skip flag of the latest step, if it was the first for some
                               // parameter
  at::Tensor one_;  // increment of the step counts: with a number torch allocates memory, with a
                    // tensor it does not
};

}  // namespace stages
