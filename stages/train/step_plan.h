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

/// Describes how a batch is split to fit the device, and how its parts are computed. The trainer
/// follows this plan.
struct StepPlan {
  std::int64_t micro_batch = 0;  ///< units computed at once; 0: the whole batch
  bool two_pass =
      false;  ///< encode micro-batches twice, and compute the loss of the whole batch in between
  Numerics numerics = {};
  ActivationCheckpointing activation_checkpointing = {};  ///< module names are paths in the network
  bool offloads_optimizer = false;      ///< keep the optimizer state in host memory between steps
  Sharding sharding = Sharding::kNone;  ///< what is sharded across the ranks
  bool optimizer_in_backward = false;   ///< update each parameter once its gradient is complete
  std::int64_t graph_batch = 0;  ///< units of a batch that a CUDA graph computes, in micro-batches;
                                 ///< 0: none
  bool operator==(const StepPlan&) const = default;
  bool shards_optimizer() const { return sharding >= Sharding::kOptimizer; }
  bool shards_gradients() const { return sharding >= Sharding::kGradients; }
  bool shards_parameters() const { return sharding >= Sharding::kParameters; }
};

/// Returns the plan under `policy` for batches of at most `units`. Throws runner::StageError if
/// training with the split would differ from training on whole batches. A loss over the whole batch
/// can be split with two passes. With layers that mix samples, a batch is split only if the recipe
/// explicitly requests it (`declares_cut`), and never into single samples. Several `ranks` split
/// every batch, and micro_batch splits each share; layers that mix samples must do so across the
/// ranks, and then no share is split.
StepPlan make_step_plan(const TrainingStep& step, const MemoryPolicy& policy, std::int64_t units,
                        Numerics numerics, ActivationCheckpointing activation_checkpointing,
                        bool declares_cut = false, int ranks = 1);

/// Returns the number of units that must stay together: the size of the groups that loss terms are
/// computed over; 1 without groups.
std::int64_t units_in_group(const TrainingStep& step);
/// True if a loss term is computed over the whole batch.
bool couples_batch(const TrainingStep& step);
/// True if the loss is computed only over groups, so encode() runs layers that mix samples on one
/// group after another.
bool is_over_groups(const TrainingStep& step);
/// True if layers mix all samples of a batch, not just the samples of one group of the loss.
bool mixes_batch(const TrainingStep& step);

/// Returns the smallest number of units in a batch, or in a part of one, that the step can learn
/// from: 2 if the network has layers that mix the samples of a batch.
std::int64_t least_units(const TrainingStep& step);

/// Throws runner::StageError because `why` makes the policy's optimizer_in_backward impossible.
[[noreturn]] void refuse_in_backward(const MemoryPolicy& policy, const std::string& why,
                                     const std::string& help);

/// Throws runner::StageError for a policy with sharded parameters, which `why` makes impossible.
[[noreturn]] void refuse_sharded_parameters(const MemoryPolicy& policy, const std::string& why,
                                            const std::string& help);

/// Returns {"micro_batch", "two_pass", "activation_checkpointing"}, plus "offload", "shard",
/// "optimizer_in_backward" and "cuda_graphs" where enabled, and to_json(Numerics): a record of
/// exactly how the steps were run.
nlohmann::ordered_json to_json(const StepPlan& plan);

/// Returns the number of parts in the measurements of a batch of `units`: one for each micro-batch,
/// or a single part with two passes.
std::int64_t parts(const StepPlan& plan, std::int64_t units);

/// Returns the plan that determines how a step's numbers are divided into parts(). With several
/// ranks, they are a single part.
StepPlan plan_of_numbers(StepPlan plan, int ranks);

/// The measurements of one batch: one row of sums for each micro-batch. They stay on the device
/// until the host needs them.
///
/// Only wait() and the functions declared after it make the host wait for a GPU. fetch() starts
/// the copy, which has long finished if these functions are called a step later. From then on, the
/// numbers need no memory on a GPU.
class StepNumbers {
 public:
  /// `weight` is the weight of the whole batch in the loss. `scored` is TrainingStep::scored() of
  /// the batch.
  StepNumbers(double weight, std::int64_t scored);
  ~StepNumbers();
  StepNumbers(StepNumbers&&) noexcept;
  StepNumbers& operator=(StepNumbers&&) noexcept;

  /// Returns one micro-batch's row of sums for add(), computed from the results of
  /// TrainingStep::loss and TrainingStep::score.
  at::Tensor row(const NamedTensors& terms, const NamedTensors& scores);
  /// The names of the numbers in a row, which row() sets. A row that row() did not compute needs
  /// the names of a row that it did.
  struct Names {
    std::vector<std::string> terms, scores;
  };
  const Names& names() const { return names_; }
  void set_names(const Names& names) { names_ = names; }
  /// Adds the next micro-batch.
  void add(at::Tensor row);
  /// Combines all rows into a single part, and returns its sums so that other ranks' sums can be
  /// added to them.
  at::Tensor join();
  /// Sets the norm of the whole gradient before clipping.
  void set_gradient_norm(const at::Tensor& norm);
  /// Sets the loss scale, and `overflow`: 1 if the gradients overflowed, so the step is skipped;
  /// otherwise 0.
  void set_scaling(const at::Tensor& scale, const at::Tensor& overflow);

  /// Returns a boolean scalar on the device: true if refuse_not_finite() will throw for these
  /// numbers. The first `terms` numbers of a row are the terms of the loss; a dry run does not
  /// know the names of parts that it does not repeat. Call this before fetch().
  at::Tensor failed(std::size_t terms) const;
  /// Starts the copy to the host. Call this once, after everything is set.
  void fetch();

  /// Waits until the host has the numbers.
  void wait() const;
  Means means() const { return means({this, 1}); }
  /// Returns the means over one or more batches measured by the same step. The sums are added
  /// before dividing, so equal counts give equal shares, regardless of how the samples were divided
  /// into batches and parts.
  static Means means(std::span<const StepNumbers> batches);
  /// Returns the gradient norm; nullopt if it was not set, or for a skipped step, which has no
  /// usable gradient.
  std::optional<double> gradient_norm() const;
  std::optional<double> loss_scale() const;
  /// True if the gradients overflowed under the loss scale.
  bool skipped() const;
  /// Returns the index of the first micro-batch with a loss that is not finite; nullopt if there is
  /// none.
  std::optional<std::int64_t> first_broken_part() const;

 private:
  /// Adds up the rows in `sums`.
  void add_sums(std::vector<double>& sums) const;
  /// Returns value `index` of the host's copy; a negative index counts from the end.
  double value(std::int64_t index) const;

  double weight_, scored_;
  Names names_;
  // Until fetch():
  std::vector<at::Tensor> rows_;  // (terms + scores) float64 each
  at::Tensor norm_;               // (1) float64
  at::Tensor scaling_;            // (2) float64: scale, overflow
  // From then on:
  std::size_t parts_ = 0;
  bool has_norm_ = false, has_scaling_ = false;
  at::Tensor host_values_;              // the rows, then the norm, then the scaling
  std::unique_ptr<c10::Event> copied_;  // null if there is nothing to wait for
};

/// Identifies a step, so that an error found once its numbers arrive can name it.
struct StepPlace {
  std::int64_t epoch = 0, step = 0;   ///< 1-based
  std::int64_t units = 0;             ///< number of units in the batch
  StepPlan plan;                      ///< how the batch was split
  std::vector<std::int64_t> indices;  ///< indices of the batch's samples in the dataset
};

/// Throws runner::StageError, kLossNotFinite, with the step and its samples if the numbers are not
/// finite. Waits for the numbers.
void refuse_not_finite(const StepNumbers& numbers, const StepPlace& place, const Dataset& dataset);

/// Returns a message such as "step 10, in epoch 2: the loss is 1.7e+29 (usually 1.4), on 'a.jpg'";
/// `what` is "the loss".
std::string disproportionate(const std::string& what, double number, std::optional<double> usual,
                             const StepPlace& place, const Dataset& dataset);

/// Throws runner::StageError because the gradients have overflowed in fp16 for many steps even
/// though the loss scale was reduced.
[[noreturn]] void refuse_endless_overflow(const StepPlace& place, double scale);

/// Throws runner::StageError with the sample's name if `step` finds a bad unit in a batch on the
/// host.
void refuse_bad_unit(const TrainingStep& step, const Dataset& dataset, const Batch& batch);

}  // namespace stages
