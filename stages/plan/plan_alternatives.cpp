#include "stages/plan/plan_alternatives.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <string>
#include <tuple>

#include "runner/shared/stage/stage.h"

namespace stages {

std::string option_of(const std::string& stage, const std::string& name) {
  return stage.substr(1) + "." + name;
}

std::string option_text(const ActivationCheckpointing& checkpointing) {
  if (checkpointing.blocks) return "block";
  std::string modules;
  for (const std::string& module : checkpointing.modules)
    modules += (modules.empty() ? "" : ",") + module;
  return modules.empty() ? "none" : "[" + modules + "]";
}

std::vector<std::string> overrides_between(const MemoryPolicy& from, const MemoryPolicy& to,
                                           const CutBatch& batch) {
  std::vector<std::string> overrides;
  const auto set = [&](const std::string& stage, const std::string& text) {
    overrides.push_back(option_of(stage, text));
  };
  if (to.micro_batch && to.micro_batch != from.micro_batch) {
    if (!batch.accumulated_by.empty()) {
      set(batch.accumulated_by, "gradient_accumulation_steps=1");
      set(batch.accumulated_by, "batch_size=" + std::to_string(batch.size));
    }
    set(to.pointer, "micro_batch=" + std::to_string(*to.micro_batch));
  }
  if (to.two_pass != from.two_pass) set(to.pointer, to.two_pass ? "two_pass=on" : "two_pass=off");
  if (option_text(to.activation_checkpointing) != option_text(from.activation_checkpointing))
    set(to.pointer, "activation_checkpointing=" + option_text(to.activation_checkpointing));
  if (to.offloads_optimizer != from.offloads_optimizer)
    set(to.pointer, to.offloads_optimizer ? "offload=optimizer" : "offload=none");
  if (to.sharding != from.sharding) set(to.pointer, "shard=" + std::string(name(to.sharding)));
  if (to.optimizer_in_backward != from.optimizer_in_backward)
    set(to.pointer,
        to.optimizer_in_backward ? "optimizer_in_backward=true" : "optimizer_in_backward=false");
  if (to.uses_gram_form() != from.uses_gram_form())
    set(to.pointer, to.uses_gram_form() ? "loss_form=gram" : "loss_form=direct");
  if (to.precision.base != from.precision.base)
    set(to.pointer, "precision=" + std::string(name(to.precision.base)));
  return overrides;
}

namespace {

using runner::MemoryPlan;
using runner::PlanAlternative;

std::string option_text(const EmptyCacheEvery& every) {
  std::string units;
  const auto add = [&](const char* name, std::int64_t count) {
    if (count > 0)
      units += (units.empty() ? "" : ", ") + std::string(name) + ": " + std::to_string(count);
  };
  add("micro_batches", every.micro_batches);
  add("steps", every.steps);
  add("epochs", every.epochs);
  return "{" + units + "}";
}

/// A configuration in which the step can be computed.
struct Alternative {
  std::int64_t micro_batch;  // 0: the whole batch
  bool blocks, two_pass;
  bool gram = false;
  bool offloads = false, in_backward = false;  // for the optimizer, in addition to the policy
  Sharding sharding = Sharding::kNone;         // at least
  auto operator<=>(const Alternative&) const = default;
};

/// The plan for an alternative, or the reason why there is none.
struct Outcome {
  std::int64_t needed = 0;
  double flops = 0;
  std::int64_t operations = 0;
  std::string refused = {};  // why the alternative is impossible; empty: it is possible
};

class Alternatives {
 public:
  Alternatives(MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
               const PlanUnder& under)
      : plan_(plan), policy_(policy), batch_(batch), units_(batch.units), under_(under) {}

  void add() {
    const bool has_blocks = policy_.activation_checkpointing.blocks;
    if (batch_.has_loss_forms && !policy_.uses_gram_form())
      consider({policy_.micro_batch.value_or(0), has_blocks, policy_.two_pass, /*gram=*/true});
    for (const bool blocks : {false, true}) {
      if (has_blocks && !blocks) continue;
      if (blocks != has_blocks)
        consider({policy_.micro_batch.value_or(0), blocks, policy_.two_pass});
      if (units_ < 2) continue;
      // A loss over the whole batch can only be split in two passes, which cost a second forward
      // pass.
      const bool two_pass =
          policy_.two_pass || !outcome({units_ / 2, blocks, false}).refused.empty();
      const std::int64_t largest = plan_.fits() ? 0 : largest_that_fits(blocks, two_pass);
      for (std::int64_t size = largest > 0 ? largest : units_ / 2; size >= 1; size /= 2) {
        if (!consider({size, blocks, two_pass})) break;
      }
      consider_optimizer({policy_.micro_batch.value_or(0), blocks, policy_.two_pass});
    }
    // Among alternatives with equal compute, within a few percent, the one with larger parts is
    // faster.
    const auto cost = [](const PlanAlternative& one) {
      return std::tuple(!one.refused.empty(), std::lround(20 * one.relative_flops), -one.needed);
    };
    std::ranges::stable_sort(plan_.alternatives, {}, cost);
  }

 private:
  /// Adds the alternatives that run the optimizer differently, if they save memory.
  void consider_optimizer(Alternative way) {
    constexpr Sharding kNone = Sharding::kNone;
    for (const auto& [offloads, sharding, in_backward] :
         {std::tuple(true, kNone, false), std::tuple(false, Sharding::kOptimizer, false),
          std::tuple(false, Sharding::kGradients, false),
          std::tuple(false, Sharding::kParameters, false), std::tuple(false, kNone, true),
          std::tuple(true, kNone, true)}) {
      if (sharding == Sharding::kParameters && !way.blocks) continue;
      way.offloads = offloads;
      way.sharding = sharding;
      way.in_backward = in_backward;
      const Outcome& found = outcome(way);
      if (found.refused.empty() && found.needed < plan_.needed) consider(way);
    }
  }

  MemoryPolicy policy_of(const Alternative& way) const {
    MemoryPolicy policy = policy_;
    if (way.micro_batch > 0) policy.micro_batch = way.micro_batch;
    policy.two_pass = way.two_pass;
    if (way.blocks) policy.activation_checkpointing = {.blocks = true};
    if (way.micro_batch > 0 && way.micro_batch < units_) policy.optimizer_in_backward = false;
    policy.offloads_optimizer |= way.offloads;
    policy.sharding = std::max(policy.sharding, way.sharding);
    policy.optimizer_in_backward |= way.in_backward;
    if (way.gram) policy.loss_form = LossForm::kGram;
    return policy;
  }

  /// Returns the outcome of an alternative. Each one is planned only once.
  const Outcome& outcome(const Alternative& way) {
    const auto [entry, is_new] = outcomes_.try_emplace(way);
    Outcome& result = entry->second;
    if (!is_new) return result;
    try {
      const MemoryPlan plan = under_(policy_of(way));
      result = {.needed = plan.needed, .flops = plan.flops, .operations = plan.operations};
    } catch (const runner::StageError& error) {
      result.refused = error.what();
    }
    return result;
  }

  /// Returns the largest part size that fits; 0 if not even size one fits. The peak grows with the
  /// size, so bisection finds it.
  std::int64_t largest_that_fits(bool blocks, bool two_pass) {
    const auto fits = [&](std::int64_t size) {
      const Outcome& found = outcome({size, blocks, two_pass});
      return found.refused.empty() && found.needed <= *plan_.budget;
    };
    std::int64_t fitting = 0, failing = units_;
    while (failing - fitting > 1) {
      const std::int64_t middle = fitting + (failing - fitting) / 2;
      (fits(middle) ? fitting : failing) = middle;
    }
    return fitting;
  }

  /// Adds an alternative unless it has been added before. Returns false if it is impossible; even
  /// then, it is listed.
  bool consider(const Alternative& way) {
    PlanAlternative alternative{.overrides = overrides_between(policy_, policy_of(way), batch_)};
    if (alternative.overrides.empty()) return true;
    const auto listed =
        std::ranges::find(plan_.alternatives, alternative.overrides, &PlanAlternative::overrides);
    if (listed != plan_.alternatives.end()) return listed->refused.empty();
    const bool is_cut = way.micro_batch > 0 || way.two_pass;
    const Sharding sharding = policy_of(way).sharding;
    const bool is_sharded = sharding >= Sharding::kGradients && sharding != policy_.sharding;
    alternative.exactness = is_cut || way.gram || is_sharded ? "exact" : "bit";
    const Outcome& other = outcome(way);
    alternative.refused = other.refused;
    if (other.refused.empty()) {
      alternative.needed = other.needed;
      alternative.relative_flops = plan_.flops > 0 ? other.flops / plan_.flops : 1;
      alternative.relative_operations =
          plan_.operations > 0
              ? static_cast<double>(other.operations) / static_cast<double>(plan_.operations)
              : 1;
    }
    plan_.alternatives.push_back(alternative);
    return alternative.refused.empty();
  }

  MemoryPlan& plan_;
  const MemoryPolicy& policy_;
  const CutBatch& batch_;
  const std::int64_t units_;
  const PlanUnder& under_;
  std::map<Alternative, Outcome> outcomes_;
};

}  // namespace

void add_option_effects(MemoryPlan& plan, const MemoryPolicy& policy, const MemoryPolicy& written,
                        const CutBatch& batch, const PlanUnder& under) {
  const auto add_option = [&](const std::string& option, const std::string& value,
                              const MemoryPolicy& without) {
    runner::OptionEffect effect{option, value};
    try {
      effect.bytes = under(without).needed - plan.needed;
    } catch (const runner::StageError& error) {
      effect.note = std::string("cannot be left out: ") + error.what();
    }
    plan.options.push_back(std::move(effect));
  };
  const auto add = [&](const std::string& name, const std::string& value,
                       const MemoryPolicy& without) {
    add_option(option_of(policy.pointer, name), value, without);
  };
  const auto add_without_effect = [&](const std::string& name, const std::string& value,
                                      const std::string& why) {
    plan.options.push_back({option_of(policy.pointer, name), value, 0, why});
  };
  MemoryPolicy without = policy;
  if (written.micro_batch) {
    without.micro_batch.reset();
    if (batch.accumulated_by.empty()) {
      add("micro_batch", std::to_string(*policy.micro_batch), without);
    } else {
      add_option(option_of(batch.accumulated_by, "gradient_accumulation_steps"),
                 std::to_string(batch.size / *policy.micro_batch), without);
    }
    without = policy;
  }
  if (written.two_pass) {
    without.two_pass = false;
    add("two_pass", "on", without);
    without = policy;
  }
  if (written.activation_checkpointing.recomputes()) {
    without.activation_checkpointing = {};
    add("activation_checkpointing", option_text(policy.activation_checkpointing), without);
    without = policy;
  }
  if (written.offloads_optimizer && plan.step.contains("offload")) {
    without.offloads_optimizer = false;
    add("offload", "optimizer", without);
    without = policy;
  } else if (written.offloads_optimizer) {
    add_without_effect("offload", "optimizer", "the optimizer state is in host memory anyway");
  }
  const std::string sharded(name(written.sharding));
  if (written.sharding != Sharding::kNone && plan.step.contains("shard")) {
    without.sharding = Sharding::kNone;
    add("shard", sharded, without);
    without = policy;
  } else if (written.sharding != Sharding::kNone) {
    add_without_effect("shard", sharded, "there is only one rank, which keeps everything");
  }
  if (written.optimizer_in_backward) {
    without.optimizer_in_backward = false;
    add("optimizer_in_backward", "true", without);
    without = policy;
  }
  if (policy.precision.base != Precision::kFp32 || !policy.precision.rules.empty()) {
    without.precision = {};
    add("precision", std::string(name(policy.precision.base)), without);
    without = policy;
  }
  if (policy.layout) {
    without.layout.reset();
    add("layout", std::string(name(*policy.layout)), without);
    without = policy;
  }
  if (policy.allocator != AllocatorSettings{}) {
    without.allocator = {};
    add("allocator", "as written", without);
    without = policy;
  }
  if (policy.empty_cache_every != EmptyCacheEvery{}) {
    add_without_effect("empty_cache_every", option_text(policy.empty_cache_every),
                       "it returns unused blocks, which does not lower the peak: the allocator "
                       "does the same before giving up");
  }
  if (written.loss_form != LossForm::kDirect) {
    const char* const word = written.loss_form == LossForm::kAuto ? "auto" : "gram";
    if (!batch.has_loss_forms) {
      add_without_effect("loss_form", word, "each loss in this training run has only one form");
    } else if (!policy.uses_gram_form()) {
      add_without_effect(
          "loss_form", word,
          "loss_form is direct, and allow excludes forms that are equal only in exact arithmetic");
    } else {
      without.loss_form = LossForm::kDirect;
      add("loss_form", word, without);
      without = policy;
    }
  }
  if (policy.activation_checkpointing.updates_twice &&
      !policy.activation_checkpointing.recomputes()) {
    add_without_effect("recompute_batch_norm", "twice", "nothing is recomputed");
  }
  if (policy.tf32)
    add_without_effect("tf32", "true",
                       "it changes how matrix products are computed, not what is saved");
}

void add_alternatives(MemoryPlan& plan, const MemoryPolicy& policy, const CutBatch& batch,
                      const PlanUnder& under) {
  Alternatives(plan, policy, batch, under).add();
}

}  // namespace stages
