#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/ranks/state_shard.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/block_quantizer.h"
#include "stages/train/host_block.h"
#include "stages/train/optimizer_options.h"
#include "stages/train/optimizer_state.h"
#include "stages/train/schedule.h"

namespace stages {

/// Parameters that share one update rule and learning rate.
struct ParameterGroup {
  std::string name;  ///< used in logs; empty if it is the only group
  OptimizerOptions optimizer;
  NamedTensors parameters;
  std::int64_t frozen_epochs = 0;  ///< the group is not trained in this many epochs at the start
};

/// Updates parameters with their gradients, using LibTorch's fused kernels on CPUs and GPUs for SGD
/// and Adam. Other rules update one parameter after another (single_rules.h).
///
/// step() must not fail halfway, so prepare() allocates everything that step() will write:
///
///   const at::Tensor scratch = optimizer.prepare();
///   step(skip, divisor, scratch);
///
/// The state may be kept in host memory between steps. step() then copies it to the device in
/// pieces, none of them larger than the largest parameter's state, updates each piece's parameters,
/// and copies the piece back. The results are bitwise the same.
///
/// The state may be sharded across ranks. step() then updates only the parameters with state on
/// this rank; the caller copies the others from the ranks that update them.
///
/// Moments may be quantized (is_quantized()). step() then dequantizes them in chunks, updates the
/// parameter's elements in the chunk as usual, and quantizes the moments again, so that few of them
/// exist in full precision at once. LAMB, which needs norms, uses one chunk per parameter.
///
/// A parameter without a gradient is left alone, and its step count does not increase. The same
/// applies to all parameters in a skipped step: if a parameter has not been updated before, its
/// next step counts as its first.
class Optimizer {
 public:
  /// There must be at least one group; the groups' optimizers differ only in learning rate and
  /// weight decay. The parameters are floating-point leaves on one device; they are shared, not
  /// copied. With `offloads`, all state except the step counts is kept in host memory. `shard`
  /// refers to the parameters, ordered by group.
  explicit Optimizer(const std::vector<ParameterGroup>& groups, bool offloads = false,
                     StateShard shard = {});
  Optimizer(OptimizerOptions options, NamedTensors parameters, bool offloads = false);

  /// Allocates the state of parameters that have a gradient for the first time. Waits for a GPU
  /// only after a step that was the first for some parameters and might have been skipped. Returns
  /// the device memory that step() needs for offloaded state and for the rule; undefined if none.
  at::Tensor prepare();
  /// True if prepare() would now allocate nothing.
  bool is_prepared() const {
    return rule_bytes_ == 0 && pieces_.empty() && std::ranges::none_of(slots_, &Slot::needs_state);
  }

  /// Sets requires_grad for exactly the parameters trained in the 0-based `epoch`: those with a
  /// `wanted` name, in groups that are no longer frozen. A step does not change any other
  /// parameter.
  void ask_for_gradients(std::int64_t epoch,
                         const std::function<bool(std::string_view name)>& wanted);
  /// True if a group is frozen in the first epochs.
  bool freezes_groups() const;

  /// True if the moments of any parameter are quantized.
  bool quantizes() const { return signed_.has_value(); }

  /// The names of the groups and their learning rates before any schedule.
  const std::vector<std::string>& groups() const { return names_; }
  std::vector<double> learning_rates() const;

  /// Sets the learning rates of the groups for all following steps. Until then, the rates in the
  /// groups' options are used.
  void set_rates(std::vector<Rates> rates);
  const std::vector<Rates>& rates() const { return rates_; }

  /// Updates the parameters with the gradients in .grad, at each group's learning rate. If `skip`,
  /// a float32 scalar on the parameters' device, is 1, nothing changes; the host need not wait for
  /// that decision. `divisor`, a scalar of the gradients' type, first divides the gradients in
  /// place. It is used for clipping, and needs no extra pass over memory if the gradients are
  /// float32. `scratch` is the result of prepare(). `present` says for each parameter whether it
  /// has a gradient on any rank; by default, as on this one.
  void step(const std::optional<at::Tensor>& skip = {}, std::optional<at::Tensor> divisor = {},
            const at::Tensor& scratch = {}, const std::vector<bool>& present = {});

  /// An alternative to prepare() and step() that updates one parameter at a time, as soon as its
  /// gradient is complete. `parameter` is an index into parameters(). Each call may run out of
  /// memory after other parameters have been updated. Call begin_steps() before the first
  /// step_one().
  void begin_steps();
  void step_one(std::size_t parameter, const std::optional<at::Tensor>& skip);

  /// Returns the parameters, ordered by group.
  std::vector<at::Tensor> parameters() const;
  /// Returns the same parameters by name.
  NamedTensors named_parameters() const;
  /// Returns the gradients that step() will use, unmodified.
  std::vector<at::Tensor> gradients() const;

  /// Returns the state needed to continue as if never interrupted: "<parameter>.momentum", or
  /// "<parameter>.mean", ".square" and others from state_parts(). Shared, not copied. A parameter
  /// that has never been updated has no state; state on other ranks is left out. Waits for a GPU if
  /// its state is in host memory.
  NamedTensors state() const;
  /// Returns what state() returns on other ranks: names, types and shapes, on the Meta device.
  NamedTensors state_elsewhere() const;
  /// Returns the parameters with state on other ranks, or that will have it there once they have
  /// been updated.
  std::vector<at::Tensor> parameters_elsewhere() const;
  /// Returns the rank that keeps the state called `name`, or will keep it once the parameter has
  /// been updated; nullopt if there is no such state.
  std::optional<int> keeper_of(std::string_view name) const;
  /// Returns the part of state() that is on the device. Does not wait.
  NamedTensors state_on_device() const;
  /// Returns the bytes in host memory.
  std::int64_t offloaded_bytes() const;

  /// Replaces the current state with copies of what state() and state_elsewhere() returned, on any
  /// number of ranks. A parameter not named in `state` starts without state. State kept by another
  /// rank may be on the Meta device. Throws std::invalid_argument, and changes nothing, if `state`
  /// does not match this optimizer.
  void load_state(const NamedTensors& state);

 private:
  /// A parameter and its state.
  struct Slot {
    std::string name;
    std::size_t group;
    at::Tensor parameter;
    ParameterState state = {};
    bool is_matrix = false;            ///< Muon orthogonalizes its updates
    bool is_quantized = false;         ///< its moments are quantized
    bool ready = false, fresh = true;  ///< ready: state allocated; fresh: no step yet
    bool undecided = false;            ///< the parameter is fresh only if first_skip_ is 1
    bool is_kept = true;               ///< this rank keeps the state
    std::size_t piece = 0;             ///< index of the piece with the state, if offloaded
    bool needs_state() const { return is_kept && !ready && parameter.grad().defined(); }
  };
  /// A block of host memory that is copied as a whole: the state of some slots, one slot after
  /// another.
  struct Piece {
    HostBlock block;
    std::vector<std::size_t> slots;
  };

  /// Returns the tensors that the update rule needs, or only the tensors that may be kept in host
  /// memory.
  std::vector<StatePart> parts(const Slot& slot) const;
  std::vector<StatePart> movable_parts(const Slot& slot) const;
  std::vector<BlockPart> movable_memory(const Slot& slot) const;
  /// Allocates the state of these slots, filled with zeros.
  void make_state(const std::vector<std::size_t>& slots);
  /// Allocates the state of these slots in host memory, in pieces no larger than the largest slot's
  /// state, each for one group and one type.
  void make_pieces(const std::vector<std::size_t>& slots);
  void make_piece(std::vector<std::size_t> slots);
  /// Splits the pieces so that each slot has its own piece.
  void divide_pieces();
  /// Returns the slots that have a gradient and have their state on this rank.
  std::vector<Slot*> with_gradient(const std::vector<std::size_t>& slots);
  /// Updates slots that are all in one group and have their state on the device.
  void update(const std::vector<Slot*>& slots, const at::Tensor& scratch,
              const std::optional<at::Tensor>& skip, const std::optional<at::Tensor>& divisor);
  /// Does update() for slots with unquantized moments.
  void update_whole(const std::vector<Slot*>& slots, const at::Tensor& scratch,
                    const std::optional<at::Tensor>& skip,
                    const std::optional<at::Tensor>& divisor);
  /// Does update() for a slot with quantized moments.
  void update_quantized(Slot& slot, const at::Tensor& scratch,
                        const std::optional<at::Tensor>& skip);
  /// `scratch` has `rule_bytes` bytes for the rule, followed by those for the piece.
  void update_piece(Piece& piece, const at::Tensor& scratch, std::int64_t rule_bytes,
                    const std::optional<at::Tensor>& skip,
                    const std::optional<at::Tensor>& divisor);
  /// Returns the state of the updated slots that this rank keeps or, if `kept` is false, of all
  /// other updated slots. If `only_ages`, leaves out everything that can be offloaded.
  NamedTensors state_of(bool only_ages, bool kept) const;
  /// Records a step, which `skip` may undo.
  static void take_step(Slot& slot, const std::optional<at::Tensor>& skip);
  /// True if the latest step was skipped. Tracked only for a step that was the first for some
  /// parameter; otherwise false.
  bool skipped_first_steps() const;
  /// Marks parameters as fresh again if their first step was skipped.
  void decide_first_steps();
  /// Returns a zero tensor for one part of a parameter's state.
  static at::Tensor zeros(const Slot& slot, const StatePart& part);
  /// Returns the type and shape of one part of a parameter's state, on the Meta device.
  static at::Tensor outline(const Slot& slot, const StatePart& part);
  void step_sgd(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                const std::optional<at::Tensor>& divisor, bool fresh);
  void step_adam(const std::vector<Slot*>& slots, const AdamOptions& options, double learning_rate,
                 const std::optional<at::Tensor>& skip, const std::optional<at::Tensor>& divisor);
  void step_singly(const std::vector<Slot*>& slots, const at::Tensor& scratch,
                   const std::optional<at::Tensor>& skip);
  /// Returns the bytes of scratch memory that the rule needs for these slots.
  std::int64_t rule_bytes(const std::vector<std::size_t>& slots) const;
  /// Returns the bytes of scratch memory for updating this tensor, which has unquantized moments.
  static std::int64_t rule_bytes(const OptimizerOptions& rule, const at::Tensor& parameter,
                                 bool is_matrix);
  /// Returns the scratch memory for one chunk of a slot with quantized moments, in addition to what
  /// the rule needs for the chunk.
  std::vector<BlockPart> chunk_parts(const Slot& slot, const at::Tensor& chunk) const;
  /// Returns the first chunk of the parameter, which is the largest.
  at::Tensor first_chunk(const Slot& slot) const;
  const BlockQuantizer& quantizer(const QuantizedMoment& moment) const;
  /// Allocates scratch for the rule and then for the piece; undefined if neither needs any.
  at::Tensor make_scratch(std::int64_t rule_bytes, std::int64_t piece_bytes) const;

  std::vector<std::string> names_;           // of each group
  std::vector<OptimizerOptions> options_;    // of each group
  std::vector<Rates> rates_;                 // per group, for the next step
  std::vector<std::int64_t> frozen_epochs_;  // of each group
  std::vector<Slot> slots_;
  bool offloads_ = false;
  std::int64_t rule_bytes_ = 0;  // for the slot that needs the most
  const StateShard shard_;
  std::optional<BlockQuantizer> signed_, unsigned_;  // set if any moment is quantized
  std::vector<Piece> pieces_;  // for all slots with allocated state, if offloaded
  at::Tensor first_skip_;      // skip flag of the latest step, if it was the first step for
                               // some parameter
  at::Tensor one_;  // increment of the step counts; with a number, torch would allocate memory
};

}  // namespace stages
