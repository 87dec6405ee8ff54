#include "stages/train/plan_alternatives.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "runner/stage/stage.h"

namespace stages {
namespace {

using runner::MemoryPlan;
using runner::PlanAlternative;

std::string option_of(const MemoryPolicy& policy, const std::string& name) {
  return policy.pointer.substr(1) + "." + name;
}

std::string option_text(const ActivationCheckpointing& checkpointing) {
  if (checkpointing.blocks) return "block";
  std::string modules;
  for (const std::string& module : checkpointing.modules) modules += (modules.empty() ? "" : ",") + module;
  return modules.empty() ? "none" : "[" + modules + "]";
}

std::string option_text(const EmptyCacheEvery& every) {
  std::string units;
  const auto add = [&](const char* name, std::int64_t count) {
    if (count > 0) units += (units.empty() ? "" : ", ") + std::string(name) + ": " + std::to_string(count);
  };
  add("micro_batches", every.micro_batches);
  add("steps", every.steps);
  add("epochs", every.epochs);
  return "{" + units + "}";
}

/// One way among those that are looked at.
struct Alternative {
  std::int64_t micro_batch;  // 0: the whole batch
  bool blocks, two_pass;
};

class Alternatives {
 public:
  Alternatives(MemoryPlan& plan, const MemoryPolicy& policy, std::int64_t units, const PlanUnder& under)
      : plan_(plan), policy_(policy), units_(units), under_(under) {}

  void add() {
    const bool has_blocks = policy_.activation_checkpointing.blocks;
    for (const bool blocks : {false, true}) {
      if (has_blocks && !blocks) continue;
      if (blocks != has_blocks) consider({policy_.micro_batch.value_or(0), blocks, policy_.two_pass});
      if (units_ < 2) continue;
      // A loss over the whole batch can be cut in two passes only, which cost a second forward.
      const bool two_pass = policy_.two_pass || !is_legal({units_ / 2, blocks, false});
      const std::int64_t largest = plan_.fits() ? 0 : largest_that_fits(blocks, two_pass);
      for (std::int64_t size = largest > 0 ? largest : units_ / 2; size >= 1; size /= 2) {
        if (!consider({size, blocks, two_pass})) break;
      }
    }
    // Of ways that compute as much, to some per cent, the one in larger parts is quicker.
    const auto cost = [](const PlanAlternative& one) {
      return std::tuple(!one.refused.empty(), std::lround(20 * one.relative_flops), -one.predicted);
    };
    std::ranges::stable_sort(plan_.alternatives, {}, cost);
  }

 private:
  MemoryPolicy policy_of(const Alternative& way) const {
    MemoryPolicy policy = policy_;
    if (way.micro_batch > 0) policy.micro_batch = way.micro_batch;
    policy.two_pass = way.two_pass;
    if (way.blocks) policy.activation_checkpointing = {.blocks = true};
    return policy;
  }

  bool is_legal(const Alternative& way) const {
    try {
      under_(policy_of(way));
      return true;
    } catch (const runner::StageError&) {
      return false;
    }
  }

  /// The peak rises with the size of a part, so that halving the range finds it; 0: not even one fits.
  std::int64_t largest_that_fits(bool blocks, bool two_pass) const {
    const auto fits = [&](std::int64_t size) {
      try {
        return predicted(under_(policy_of({size, blocks, two_pass}))) <= *plan_.budget;
      } catch (const runner::StageError&) {
        return false;
      }
    };
    std::int64_t fitting = 0, failing = units_;
    while (failing - fitting > 1) {
      const std::int64_t middle = fitting + (failing - fitting) / 2;
      (fits(middle) ? fitting : failing) = middle;
    }
    return fitting;
  }

  static std::int64_t predicted(const MemoryPlan& plan) { return plan.predicted; }

  /// False where it cannot be, which is listed once.
  bool consider(const Alternative& way) {
    PlanAlternative alternative;
    if (way.micro_batch > 0 && way.micro_batch != policy_.micro_batch)
      alternative.overrides.push_back(option_of(policy_, "micro_batch=") + std::to_string(way.micro_batch));
    if (way.two_pass != policy_.two_pass) alternative.overrides.push_back(option_of(policy_, "two_pass=on"));
    if (way.blocks && !policy_.activation_checkpointing.blocks)
      alternative.overrides.push_back(option_of(policy_, "activation_checkpointing=block"));
    if (alternative.overrides.empty()) return true;
    const bool is_cut = way.micro_batch > 0 || way.two_pass;
    alternative.exactness = is_cut ? "exact" : "bit";
    try {
      const MemoryPlan other = under_(policy_of(way));
      alternative.predicted = predicted(other);
      alternative.relative_flops = plan_.flops > 0 ? other.flops / plan_.flops : 1;
    } catch (const runner::StageError& error) {
      alternative.refused = error.what();
    }
    plan_.alternatives.push_back(alternative);
    return alternative.refused.empty();
  }

  MemoryPlan& plan_;
  const MemoryPolicy& policy_;
  const std::int64_t units_;
  const PlanUnder& under_;
};

}  // namespace

void add_option_effects(MemoryPlan& plan, const MemoryPolicy& policy, const PlanUnder& under) {
  const auto add = [&](const std::string& name, const std::string& value, MemoryPolicy without) {
    runner::OptionEffect effect{option_of(policy, name), value};
    try {
      effect.bytes = under(without).predicted - plan.predicted;
    } catch (const runner::StageError& error) {
      effect.note = std::string("cannot be left out: ") + error.what();
    }
    plan.options.push_back(std::move(effect));
  };
  const auto add_without_effect = [&](const std::string& name, const std::string& value, const std::string& why) {
    plan.options.push_back({option_of(policy, name), value, 0, why});
  };
  MemoryPolicy without = policy;
  if (policy.micro_batch) {
    without.micro_batch.reset();
    add("micro_batch", std::to_string(*policy.micro_batch), without);
    without = policy;
  }
  if (policy.two_pass) {
    without.two_pass = false;
    add("two_pass", "on", without);
    without = policy;
  }
  if (policy.activation_checkpointing != ActivationCheckpointing{}) {
    without.activation_checkpointing = {};
    add("activation_checkpointing", option_text(policy.activation_checkpointing), without);
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
    add_without_effect(
        "empty_cache_every", option_text(policy.empty_cache_every),
        "unused blocks are returned, which does not lower the peak: the allocator does the same before it gives up");
  }
  if (policy.tf32) add_without_effect("tf32", "true", "it changes how products are computed, not what is kept");
}

void add_alternatives(MemoryPlan& plan, const MemoryPolicy& policy, std::int64_t units, const PlanUnder& under) {
  Alternatives(plan, policy, units, under).add();
}

}  // namespace stages
