#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "stages/machine/allocator_settings.h"
#include "stages/numerics/activation_checkpointing.h"
#include "stages/numerics/numerics.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// What may be done once memory has run out: another way of computing the same, another GPU, the
/// CPU, or to stop in a state that can be resumed.
enum class OnOom { kReplan, kGpu, kCpu, kStop };

/// What a recipe says about memory that runs out while a stage is at work.
struct RecoveryOptions {
  /// How often one batch is run again on one device; nullopt: as long as there is another way.
  std::optional<std::int64_t> max_retries = 0;
  std::vector<OnOom> on_oom = {OnOom::kReplan, OnOom::kStop};  ///< in this order
  bool halves_batch =
      false;  ///< the batch itself is halved, as a published program does (training_stage.h)

  bool allows(OnOom what) const { return std::ranges::find(on_oom, what) != on_oom.end(); }
  /// May a batch that has been run again `retries` times on this device be once more?
  bool allows_retry(std::int64_t retries) const {
    return allows(OnOom::kReplan) && (!max_retries || retries < *max_retries);
  }
};

/// Reads max_retries, on_oom and on_oom_policy, as schemas/memory/policy.schema.json says them.
RecoveryOptions read_recovery_options(runner::ConfigReader& reader);

/// What a plan may choose by itself: nothing, what keeps every bit of the result, or also what is
/// equal in exact arithmetic.
enum class Allow { kNothing, kBit, kExact };

/// How a loss that can be written in several ways is computed: as its formula is written, by
/// products of samples, or in the form that takes the least memory, where `allow` has it: they are
/// equal in exact arithmetic.
enum class LossForm { kDirect, kGram, kAuto };

/// What a run is allowed to do with memory. Data, not deeds: the trainer and the planner read it.
class MemoryPolicy : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kMemoryPolicy;
  runner::ArtifactType type() const final { return kType; }

  std::string pointer;  ///< where the recipe says it, "/memory"
  Allow allow = Allow::kNothing;
  std::optional<std::int64_t>
      micro_batch;  ///< units of a batch run at once; nullopt: the whole batch, or chosen
  bool micro_batch_is_most = false;  ///< a smaller one may be chosen
  std::int64_t min_micro_batch = 1;  ///< the least that may be chosen
  PrecisionMap precision;  ///< its rules begin with the name of the stage that makes the network
  bool tf32 = false;
  std::optional<Layout> layout;  ///< nullopt: as kLayoutRule says
  bool two_pass =
      false;  ///< encode micro-batches twice, so that a loss over the whole batch can be cut
  bool two_pass_is_open = false;  ///< that is to be chosen
  ActivationCheckpointing activation_checkpointing;
  bool checkpointing_is_open = false;  ///< which blocks are recomputed is to be chosen
  bool offloads_optimizer =
      false;  ///< its state lies in the host's memory, where that is not the device's
  bool offload_is_open = false;  ///< that is to be chosen
  bool optimizer_in_backward =
      false;  ///< weights are stepped, and gradients freed, in the backward pass
  bool in_backward_is_open = false;        ///< that is to be chosen
  LossForm loss_form = LossForm::kDirect;  ///< of a loss that has several
  std::optional<std::int64_t> budget;      ///< bytes; nullopt: what the device has
  std::optional<double> budget_share;      ///< of what the device has, as a budget of "80%" says it
  double memory_fraction = 1;  ///< of what the device has; the smaller of it and the budget holds
  EmptyCacheEvery empty_cache_every;
  AllocatorSettings allocator;
  RecoveryOptions recovery;  ///< once memory has run out

  NumericsOptions numerics() const { return {precision, tf32, layout, pointer}; }
  /// True where a covariance is computed by products of samples.
  bool uses_gram_form() const {
    return loss_form == LossForm::kGram || (loss_form == LossForm::kAuto && allow == Allow::kExact);
  }
  /// True where the plan of a training has something to choose.
  bool leaves_a_choice() const {
    return (allow == Allow::kExact && (!micro_batch || micro_batch_is_most || two_pass_is_open)) ||
           (allow != Allow::kNothing &&
            (checkpointing_is_open || offload_is_open || in_backward_is_open));
  }
};

}  // namespace stages
