#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_context.h"
#include "stages/artifact/dataset.h"
#include "stages/memory/policy.h"
#include "stages/numerics/numerics.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/training_kind.h"
#include "stages/train/training_log.h"

namespace c10 {
struct Event;
}

namespace stages {

/// How a batch is split to fit the device, and how its parts are computed; the trainer follows it.
struct StepPlan {
  std::int64_t micro_batch = 0;  ///< units run at once; 0: the whole batch
  bool two_pass =
      false;  ///< encode micro-batches twice, with the loss of the whole batch in between
  Numerics numerics = {};
  ActivationCheckpointing activation_checkpointing = {};  ///< module names are paths in the network
  bool offloads_optimizer = false;     ///< keep its state in host memory between steps
  bool shards_optimizer = false;       ///< keep a part of its state on each of several ranks
  bool optimizer_in_backward = false;  ///< update each parameter once its gradient is complete
  bool operator==(const StepPlan&) const = default;
};

/// The plan under `policy` for batches of at most `units`. Throws runner::StageError if the split
/// would train differently from the whole batch. A loss over the whole batch can be split with two
/// passes. Layers that mix samples are split only if the recipe explicitly requests it,
/// `declares_cut`, and never into single samples. Several `ranks` split every batch, and
/// micro_batch splits the share of each; layers that mix samples must do so over the ranks, and
/// then no share is split.
StepPlan make_step_plan(const TrainingStep& step, const MemoryPolicy& policy, std::int64_t units,
                        Numerics numerics, ActivationCheckpointing activation_checkpointing,
                        bool declares_cut = false, int ranks = 1);

/// The number of units that go together: the size of the groups that a term of the loss is over.
std::int64_t units_in_group(const TrainingStep& step);
/// Whether a term of the loss is over the whole batch.
bool couples_batch(const TrainingStep& step);
/// Whether the loss is over groups alone, so that encode() runs layers that mix samples on one
/// group after another.
bool is_over_groups(const TrainingStep& step);
/// Whether layers mix the samples of a batch, and not only those of a group that the loss is over.
bool mixes_batch(const TrainingStep& step);

/// The fewest units of a batch, or of a part of one, that the step can learn from: 2 if the network
/// has layers that mix the samples of a batch.
std::int64_t least_units(const TrainingStep& step);

/// Throws runner::StageError: the policy's optimizer_in_backward is impossible because of `why`.
[[noreturn]] void refuse_in_backward(const MemoryPolicy& policy, const std::string& why,
                                     const std::string& help);

/// {"micro_batch", "two_pass", "activation_checkpointing"}, "offload", "shard" and
/// "optimizer_in_backward" if they are on, and to_json(Numerics): a record of exactly how the steps
/// were run.
nlohmann::ordered_json to_json(const StepPlan& plan);

/// The number of parts in which a batch of `units` is measured: one per micro-batch, or one with
/// two passes.
std::int64_t parts(const StepPlan& plan, std::int64_t units);

/// The measurements of one batch: one row of sums per micro-batch, on the device until the host
/// needs them.
///
/// Only means() and the functions declared after it make the host wait for a GPU. fetch() starts
/// the copy, so that it has long finished if they are called a step later.
class StepNumbers {
 public:
  /// `weight`: of the whole batch in the loss. `scored`: what its scores count among
  /// (TrainingStep::scored()).
  StepNumbers(double weight, std::int64_t scored);
  ~StepNumbers();
  StepNumbers(StepNumbers&&) noexcept;
  StepNumbers& operator=(StepNumbers&&) noexcept;

  /// The sums of one micro-batch, from the results of TrainingStep::loss and TrainingStep::score,
  /// for add().
  at::Tensor row(const NamedTensors& terms, const NamedTensors& scores);
  /// Adds the next micro-batch.
  void add(at::Tensor row);
  /// Makes one part of all that have been added, and returns its sums, for ranks to add theirs.
  at::Tensor join();
  /// Sets the norm of the whole gradient before clipping.
  void set_gradient_norm(const at::Tensor& norm);
  /// Sets the loss scale, and 1 if the gradients overflowed under it, so that the step is skipped;
  /// else 0.
  void set_scaling(const at::Tensor& scale, const at::Tensor& overflow);

  /// Starts the copy to the host; called once, after the last add().
  void fetch();
  /// A float32 scalar on the device: 1 if the loss or the gradient is not finite, else 0. Call it
  /// after fetch().
  at::Tensor broken() const;

  Means means() const { return means({this, 1}); }
  /// Means over at least one batch that the same step measured. The sums are added up before
  /// dividing: equal counts give equal shares, however the samples were divided among batches and
  /// parts.
  static Means means(std::span<const StepNumbers> batches);
  /// Also absent for a skipped step, which has no usable gradient.
  std::optional<double> gradient_norm() const;
  std::optional<double> loss_scale() const;
  /// True if the gradients overflowed under the loss scale.
  bool skipped() const;
  /// The first micro-batch whose loss is not finite.
  std::optional<std::int64_t> first_broken_part() const;

 private:
  void wait() const;
  /// Adds the rows to `sums`.
  void add_sums(std::vector<double>& sums) const;
  /// Value `index` of the host's copy; a negative index counts from the end.
  double value(std::int64_t index) const;

  double weight_, scored_;
  std::vector<std::string> term_names_, score_names_;
  std::vector<at::Tensor> rows_;  // (terms + scores) float64 each
  at::Tensor norm_;               // (1) float64
  at::Tensor scaling_;            // (2) float64: scale, overflow
  at::Tensor device_values_;      // the rows, then the norm, then the scaling
  at::Tensor host_values_;
  std::unique_ptr<c10::Event> copied_;  // null if there is nothing to wait for
};

/// Identifies a step, so that errors about numbers that arrive later can name it.
struct StepPlace {
  std::int64_t epoch = 0, step = 0;   ///< 1-based
  std::int64_t units = 0;             ///< of the batch
  StepPlan plan;                      ///< how the batch was split
  std::vector<std::int64_t> indices;  ///< indices of the batch's samples in the dataset
};

/// Throws runner::StageError kLossNotFinite, naming the step and its samples, if the numbers are
/// not finite. Waits for the numbers.
void refuse_not_finite(const StepNumbers& numbers, const StepPlace& place, const Dataset& dataset);

/// "step 10, in epoch 2: the loss is 1.7e+29, where 1.4 is usual, on 'a.jpg'": `what` is "the
/// loss".
std::string disproportionate(const std::string& what, double number, std::optional<double> usual,
                             const StepPlace& place, const Dataset& dataset);

/// Throws runner::StageError: the gradients have overflowed in fp16 for many steps, although the
/// loss scale shrank.
[[noreturn]] void refuse_endless_overflow(const StepPlace& place, double scale);

/// Throws runner::StageError, naming the sample, if `step` finds a bad unit in a batch on the host.
void refuse_bad_unit(const TrainingStep& step, const Dataset& dataset, const Batch& batch);

}  // namespace stages
