#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "stages/machine/allocator_settings.h"
#include "stages/numerics/activation_checkpointing.h"
#include "stages/numerics/numerics.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// How a run may respond when memory runs out: compute the same result in a different way, use
/// another GPU or the CPU, or stop so that it can be resumed.
enum class OnOom { kReplan, kGpu, kCpu, kStop };

/// A recipe's settings for recovery from an out-of-memory error.
struct RecoveryOptions {
  /// How many times a batch may be retried on one device. nullopt: as long as there is another way
  /// to compute it.
  std::optional<std::int64_t> max_retries = 0;
  std::vector<OnOom> on_oom = {OnOom::kReplan, OnOom::kStop};  ///< tried in this order
  bool halves_batch =
      false;  ///< halve the batch itself, as a published program does (halving_retries.h)

  bool allows(OnOom what) const { return std::ranges::find(on_oom, what) != on_oom.end(); }
  /// True if a batch that has been retried `retries` times on this device may be retried again.
  bool allows_retry(std::int64_t retries) const {
    return allows(OnOom::kReplan) && (!max_retries || retries < *max_retries);
  }
};

/// Reads max_retries, on_oom and on_oom_policy, as defined in schemas/memory/policy.schema.json.
RecoveryOptions read_recovery_options(runner::ConfigReader& reader);

/// The changes that a plan may make: none, only those that leave the result bitwise the same, or
/// also those that leave it equal in exact arithmetic.
enum class Allow { kNothing, kBit, kExact };

/// How to compute a loss that has several forms: directly by its formula, from products of samples
/// (Gram matrix), or, if `allow` permits it, in the form that uses the least memory. The forms are
/// equal in exact arithmetic.
enum class LossForm { kDirect, kGram, kAuto };

/// What is sharded across the ranks of a run, so that each keeps only a part of it: stages 1 to 3
/// of ZeRO (Rajbhandari, Rasley, Ruwase and He, SC 2020). Each stage includes the previous ones.
enum class Sharding { kNone, kOptimizer, kGradients, kParameters };

/// Returns "none", "optimizer", "gradients" or "parameters", as in a recipe.
std::string_view name(Sharding sharding);
/// The inverse of name(); nullopt if there is no such name.
std::optional<Sharding> sharding_named(std::string_view name);

/// How a run may use memory. This is only data; the trainer and the planner act on it.
class MemoryPolicy : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kMemoryPolicy;
  runner::ArtifactType type() const final { return kType; }

  std::string pointer;  ///< location in the recipe, "/memory"
  Allow allow = Allow::kNothing;
  std::optional<std::int64_t> micro_batch;  ///< units of a batch to compute at once; nullopt: the
                                            ///< whole batch, or the plan chooses
  bool micro_batch_is_most = false;         ///< the plan may choose a smaller micro_batch
  std::int64_t min_micro_batch = 1;         ///< the smallest micro-batch that the plan may choose
  PrecisionMap precision;  ///< each rule begins with the name of the network's stage
  bool tf32 = false;
  std::optional<Layout> layout;  ///< nullopt: kLayoutRule decides
  bool two_pass =
      false;  ///< encode micro-batches twice, so that a loss over the whole batch can be split
  bool two_pass_is_open = false;  ///< the plan chooses two_pass
  ActivationCheckpointing activation_checkpointing;
  bool checkpointing_is_open = false;  ///< the plan chooses which blocks to recompute
  bool offloads_optimizer =
      false;  ///< keep the optimizer's state in host memory, if the device has its own memory
  bool offload_is_open = false;         ///< the plan chooses whether to offload
  Sharding sharding = Sharding::kNone;  ///< what is sharded across the ranks
  bool shard_is_open = false;           ///< the plan chooses whether to shard
  bool optimizer_in_backward = false;   ///< update weights and free gradients in the backward pass
  bool in_backward_is_open = false;     ///< the plan chooses optimizer_in_backward
  bool cuda_graphs = false;             ///< replay micro-batches from a CUDA graph
  LossForm loss_form = LossForm::kDirect;  ///< for a loss that has several forms
  std::optional<std::int64_t> budget;      ///< bytes; nullopt: all of the device's memory
  std::optional<double> budget_share;      ///< fraction of the device's memory, for a budget such
                                           ///< as "80%"
  double memory_fraction = 1;  ///< fraction of the device's memory; if the budget is smaller,
                               ///< the budget applies
  EmptyCacheEvery empty_cache_every;
  AllocatorSettings allocator;
  RecoveryOptions recovery;  ///< what to do when memory runs out

  NumericsOptions numerics() const { return {precision, tf32, layout, pointer}; }
  /// True if covariances are computed from products of samples.
  bool uses_gram_form() const {
    return loss_form == LossForm::kGram || (loss_form == LossForm::kAuto && allow == Allow::kExact);
  }
  /// True if the plan of a training run has anything left to choose.
  bool leaves_a_choice() const {
    return (allow == Allow::kExact && (!micro_batch || micro_batch_is_most || two_pass_is_open)) ||
           (allow != Allow::kNothing &&
            (checkpointing_is_open || offload_is_open || shard_is_open || in_backward_is_open));
  }
};

}  // namespace stages
