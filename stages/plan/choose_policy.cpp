#include "stages/plan/choose_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "stages/plan/step_profile.h"

namespace stages {
namespace {

using runner::MemoryPlan;

constexpr std::size_t kSizesWithBlocks =
    6;  // number of micro-batch sizes for which to search for a subset of blocks
constexpr int kRefinements = 12;  // steps of that search

/// A configuration in which a step can be computed.
struct PolicyWay {
  std::int64_t micro_batch = 0;  // 0: the whole batch
  bool two_pass = false;
  ActivationCheckpointing recomputed = {};
  bool offloads = false, in_backward = false;  // of the optimizer
  Sharding sharding = Sharding::kNone;

  auto key() const {
    return std::tuple(micro_batch, two_pass, recomputed.blocks, recomputed.modules, offloads,
                      in_backward, sharding);
  }
};

/// A configuration and the result of its dry run.
struct Tried {
  PolicyWay way;
  std::optional<TracedPolicy> traced;  // nullopt: the policy is invalid
  double seconds = 0;
};

class WaySearch {
 public:
  explicit WaySearch(const PolicySearch& search)
      : search_(search),
        written_(search.written),
        as_written_{.two_pass = written_.two_pass && written_.micro_batch,
                    .recomputed = written_.activation_checkpointing,
                    .offloads = written_.offloads_optimizer,
                    .in_backward = written_.optimizer_in_backward,
                    .sharding = written_.sharding} {
    if (may_recompute() && search_.has_ranks) recompute_for(as_written_);
    whole_ = as_written_;
  }

  PlannedStep run() {
    // If the recipe sets micro_batch, a loss over the whole batch can only be computed in two
    // passes. A CUDA graph supports only one.
    const bool may_pass_twice =
        written_.two_pass_is_open && written_.micro_batch && !written_.cuda_graphs;
    if (!attempt(as_written_, may_pass_twice ? Illegal::kConflictNoted : Illegal::kThrown).traced) {
      as_written_.two_pass = true;
      attempt(as_written_, Illegal::kThrown);
    }
    whole_ = as_written_;
    const bool fits_as_written = fits(attempt(as_written_));
    look_at_passes();
    if (!fits_as_written) {
      for (const PolicyWay& other : optimizer_ways()) {
        const bool is_last_resort =
            other.sharding == Sharding::kParameters && written_.sharding != Sharding::kParameters;
        if (is_last_resort && quickest_that_fits()) break;
        whole_ = other;
        look_at_passes();
      }
    }
    whole_ = as_written_;
    const Tried* const best = quickest_that_fits();
    return chosen(best ? *best : smallest());
  }

 private:
  void look_at_passes() {
    for (const bool two_pass : {false, true}) {
      if (two_pass != written_.two_pass && !(two_pass && written_.two_pass_is_open)) continue;
      // Two passes cost a second forward pass: use them only if the loss cannot be split without
      // them.
      if (two_pass && written_.two_pass_is_open && (whole_.in_backward || can_be_cut(false)))
        continue;
      look(two_pass);
    }
  }

  /// Enables recomputation of the blocks if their parameters are to be sharded.
  static void recompute_for(PolicyWay& way) {
    if (way.sharding != Sharding::kParameters) return;
    way.recomputed.blocks = true;
    way.recomputed.modules.clear();
  }

  /// Returns the optimizer configurations other than the recipe's own. Those that shard the
  /// parameters, which must then be sent in every pass, come last.
  std::vector<PolicyWay> optimizer_ways() const {
    if (written_.allow == Allow::kNothing) return {};
    const bool may_offload = written_.offload_is_open && search_.has_host;
    const bool may_shard = written_.shard_is_open && search_.has_ranks;
    const bool may_step = written_.in_backward_is_open && written_.recovery.max_retries == 0;
    std::vector<PolicyWay> ways = {as_written_};
    const auto combine = [&](const auto& option, const auto& values) {
      for (std::size_t i = 0, before = ways.size(); i < before; ++i) {
        for (const auto value : values) {
          PolicyWay way = ways[i];
          way.*option = value;
          ways.push_back(std::move(way));
        }
      }
    };
    if (may_step) combine(&PolicyWay::in_backward, std::array{true});
    if (may_offload) combine(&PolicyWay::offloads, std::array{true});
    if (may_shard) combine(&PolicyWay::sharding, shardings());
    ways.erase(ways.begin());
    for (PolicyWay& way : ways) recompute_for(way);
    std::stable_partition(ways.begin(), ways.end(), [](const PolicyWay& way) {
      return way.sharding != Sharding::kParameters;
    });
    return ways;
  }

  /// Returns the possible values of `shard`. Sharded gradients are summed in a different order, so
  /// their last bits differ.
  std::vector<Sharding> shardings() const {
    if (written_.allow != Allow::kExact) return {Sharding::kOptimizer};
    const bool are_blocks_recomputed = may_recompute() || as_written_.recomputed.blocks;
    if (!are_blocks_recomputed) return {Sharding::kOptimizer, Sharding::kGradients};
    return {Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters};
  }

  /// Returns one part size for each number of parts, largest first; 0 is the whole batch.
  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> sizes = {written_.micro_batch.value_or(0)};
    if (written_.allow != Allow::kExact || (written_.micro_batch && !written_.micro_batch_is_most))
      return sizes;
    for (std::int64_t parts = 2; parts <= search_.batch.units; ++parts) {
      const std::int64_t size = (search_.batch.units + parts - 1) / parts;
      if (size < written_.min_micro_batch) break;
      if (sizes.back() == 0 || size < sizes.back()) sizes.push_back(size);
    }
    return sizes;
  }

  bool may_recompute() const {
    return written_.checkpointing_is_open && written_.allow != Allow::kNothing;
  }

  /// Tries the configurations with one pass or with two.
  void look(bool two_pass) {
    std::vector<std::int64_t> all = sizes();
    if (all.size() > 1 && (whole_.in_backward || !can_be_cut(two_pass))) all.resize(1);
    const auto way = [&](std::size_t i, bool blocks) {
      PolicyWay one = whole_;
      one.micro_batch = all[i];
      one.two_pass = two_pass && all[i] > 0;
      if (blocks) one.recomputed.blocks = true;
      return one;
    };
    const auto first = [&](bool blocks) {
      return first_that_fits(all.size(),
                             [&](std::size_t i) { return fits(attempt(way(i, blocks))); });
    };
    const std::size_t kept = first(false);
    if (kept == 0 || !may_recompute() || whole_.recomputed.blocks) return;
    if (!attempt(way(0, true)).traced) return;
    const std::size_t recomputed = first_that_fits(all.size(), [&](std::size_t i) {
      const Tried& tried = attempt(way(i, true));
      return tried.traced && without_loss(tried) <= search_.budget;
    });
    first(true);  // a configuration that fits even with the allocator's gaps
    // If fewer blocks are kept, larger parts fit.
    const std::size_t count = kept - std::min(kept, recomputed),
                      looked_at = std::min(count, kSizesWithBlocks);
    for (std::size_t n = 0; n < looked_at; ++n) {
      const std::size_t i = recomputed + (looked_at == 1 ? 0 : n * (count - 1) / (looked_at - 1));
      mix(attempt(way(i, false)), attempt(way(i, true)));
    }
  }

  /// Returns the first index below `count` for which `is_one` holds, found by bisection; `count` if
  /// there is none.
  template <typename Is>
  static std::size_t first_that_fits(std::size_t count, Is is_one) {
    if (is_one(0)) return 0;
    if (!is_one(count - 1)) return count;
    std::size_t failing = 0, fitting = count - 1;
    while (fitting - failing > 1) {
      const std::size_t middle = failing + (fitting - failing) / 2;
      (is_one(middle) ? fitting : failing) = middle;
    }
    return fitting;
  }

  bool can_be_cut(bool two_pass) {
    if (search_.batch.units < 2) return false;
    PolicyWay way = whole_;
    const std::vector<std::int64_t> all = sizes();
    way.micro_batch = all[std::min<std::size_t>(1, all.size() - 1)];
    if (way.micro_batch == 0) return false;
    way.two_pass = two_pass;
    return attempt(way).traced.has_value();
  }

  /// If not all blocks fit, keeps as many as possible. Each choice calculated from the two profiles
  /// is also traced: the calculation predicts live bytes but not the allocator's gaps, which may be
  /// largest if all blocks are recomputed.
  void mix(const Tried& kept, const Tried& recomputed) {
    if (!kept.traced || !recomputed.traced) return;
    const StepProfile &without = kept.traced->profile, &with = recomputed.traced->profile;
    if (without.blocks.size() != with.blocks.size() || with.blocks.empty()) return;
    const std::int64_t besides =
        without_loss(recomputed) -
        bytes_needed(without, with, std::vector<bool>(with.blocks.size(), true));
    // According to the calculation, configurations of up to `low` bytes fit (0: none known), and
    // configurations of `high` bytes or more do not.
    std::int64_t low = 0, high = search_.budget - besides + 1, bytes = high - 1;
    for (int i = 0; i < kRefinements && high - low > search_.budget / 1024; ++i) {
      const auto blocks = choose_blocks(without, with, bytes, search_.seconds);
      if (!blocks) {
        low = bytes;
        bytes = low + (high - low) / 2;
        continue;
      }
      PolicyWay way = kept.way;
      for (std::size_t block = 0; block < blocks->size(); ++block) {
        if ((*blocks)[block]) way.recomputed.modules.push_back(without.blocks[block].path);
      }
      if (way.recomputed.modules.size() == blocks->size()) way = recomputed.way;
      const Tried& tried = attempt(way);
      if (!tried.traced) return;
      if (fits(tried)) low = bytes;
      else high = bytes_needed(without, with, *blocks);
      const std::int64_t missing = tried.traced->plan.needed - search_.budget;
      bytes = low > 0 ? low + (high - low) / 2 : high - std::max<std::int64_t>(missing, 1);
    }
  }

  /// Returns the bytes needed if the allocator left no gaps.
  static std::int64_t without_loss(const Tried& tried) {
    const MemoryPlan& plan = tried.traced->plan;
    return plan.needed - (plan.reserved - plan.live);
  }

  /// How to handle an error in one configuration: record it, throw it unless options conflict, or
  /// always throw it. A step that fails with the whole batch fails in every configuration, whereas
  /// options may conflict in just one.
  enum class Illegal { kNoted, kConflictNoted, kThrown };

  const Tried& attempt(const PolicyWay& way, Illegal illegal = Illegal::kNoted) {
    const auto [entry, is_new] = tried_.try_emplace(way.key());
    Tried& tried = entry->second;
    if (!is_new) return tried;
    tried.way = way;
    try {
      tried.traced = search_.trace(policy_of(way));
      const MemoryPlan& plan = tried.traced->plan;
      tried.seconds = search_.seconds(
          {plan.flops, plan.traffic, static_cast<double>(plan.operations), plan.moved});
    } catch (const runner::StageError& error) {
      const bool is_conflict = error.code == runner::ErrorCode::kOptionConflict;
      if (illegal == Illegal::kThrown || (illegal == Illegal::kConflictNoted && !is_conflict))
        throw;
    }
    return tried;
  }

  MemoryPolicy policy_of(const PolicyWay& way) const {
    MemoryPolicy policy = written_;
    if (way.micro_batch > 0) policy.micro_batch = way.micro_batch;
    policy.two_pass = way.two_pass;
    policy.micro_batch_is_most = policy.two_pass_is_open = policy.checkpointing_is_open = false;
    policy.offload_is_open = policy.shard_is_open = policy.in_backward_is_open = false;
    policy.activation_checkpointing = way.recomputed;
    policy.offloads_optimizer = way.offloads;
    policy.sharding = way.sharding;
    policy.optimizer_in_backward = way.in_backward;
    return policy;
  }

  bool fits(const Tried& tried) const {
    return tried.traced && tried.traced->plan.needed <= search_.budget;
  }

  const Tried* quickest_that_fits() const {
    const Tried* best = nullptr;
    const auto cost = [](const Tried& one) {
      return std::tuple(one.seconds, one.traced->plan.needed);
    };
    for (const auto& [key, tried] : tried_) {
      if (fits(tried) && (!best || cost(tried) < cost(*best))) best = &tried;
    }
    return best;
  }

  const Tried& smallest() const {
    const Tried* least = nullptr;
    for (const auto& [key, tried] : tried_) {
      if (tried.traced && (!least || tried.traced->plan.needed < least->traced->plan.needed))
        least = &tried;
    }
    return *least;
  }

  /// Returns a string such as "micro_batch 26 (5 parts), 3 of 12 blocks recomputed".
  std::string summary(const Tried& tried) const {
    std::string text = "the whole batch at once";
    const std::int64_t size = tried.way.micro_batch, units = search_.batch.units;
    if (size > 0 && size < units) {
      text = "micro_batch " + std::to_string(size) + " (" +
             std::to_string((units + size - 1) / size) + " parts" +
             (tried.way.two_pass ? ", two passes)" : ")");
    }
    if (tried.way.in_backward && !written_.optimizer_in_backward)
      text += ", the optimizer in the backward pass";
    if (tried.way.offloads && !written_.offloads_optimizer)
      text += ", the optimizer state in host memory";
    if (tried.way.sharding != written_.sharding) {
      text += tried.way.sharding == Sharding::kParameters  ? ", parameters, gradients and"
              : tried.way.sharding == Sharding::kGradients ? ", gradients and"
                                                           : ",";
      text += " the optimizer state sharded across the ranks";
    }
    const ActivationCheckpointing& recomputed = tried.way.recomputed;
    if (!may_recompute() || !recomputed.recomputes()) return text;
    if (recomputed.blocks) return text + ", all blocks recomputed";
    return text + ", " + std::to_string(recomputed.modules.size()) + " of " +
           std::to_string(tried.traced->profile.blocks.size()) + " blocks recomputed";
  }

  PlannedStep chosen(const Tried& tried) {
    const Tried& whole = attempt(whole_);
    PlannedStep result{policy_of(tried.way), tried.traced->plan};
    result.plan.choice = {
        .overrides = overrides_between(written_, result.policy, search_.batch),
        .exactness = tried.way.micro_batch != written_.micro_batch.value_or(0) ||
                             tried.way.two_pass != written_.two_pass || adds_otherwise(tried.way)
                         ? "exact"
                         : "bit",
        .summary = summary(tried),
        .whole = whole.traced ? whole.traced->plan.needed : 0,
        .relative_time = whole.traced && whole.seconds > 0 ? tried.seconds / whole.seconds : 1,
        .time_model = std::string(time_model_version())};
    for (const auto& [key, other] : tried_) {
      if (&other == &tried || !other.traced) continue;
      const bool is_exact =
          other.way.micro_batch > 0 || other.way.two_pass || adds_otherwise(other.way);
      list(policy_of(other.way), other.traced->plan, is_exact ? "exact" : "bit", result.plan);
    }
    if (!fits(tried)) list_half(result);
    // Sorts the alternatives by cost; among those with equal compute, the one with larger parts
    // comes first.
    std::ranges::stable_sort(result.plan.alternatives, {}, [](const runner::PlanAlternative& one) {
      return std::tuple(one.exactness == "declared", std::lround(20 * one.relative_flops),
                        -one.needed);
    });
    return result;
  }

  /// True if gradients are summed in a different order than under the recipe's own policy.
  bool adds_otherwise(const PolicyWay& way) const {
    return way.sharding != written_.sharding && way.sharding >= Sharding::kGradients;
  }

  void list(const MemoryPolicy& policy, const MemoryPlan& other, const char* exactness,
            MemoryPlan& plan) const {
    const auto relative = [](double one, double all) { return all > 0 ? one / all : 1; };
    plan.alternatives.push_back(
        {.overrides = overrides_between(written_, policy, search_.batch),
         .exactness = exactness,
         .needed = other.needed,
         .relative_flops = relative(other.flops, plan.flops),
         .relative_operations = relative(static_cast<double>(other.operations),
                                         static_cast<double>(plan.operations))});
  }

  /// If nothing fits without changing what is trained, lists half precision, since it is the
  /// smallest change.
  void list_half(PlannedStep& least) const {
    if (written_.precision.base != Precision::kFp32 || !written_.precision.rules.empty()) return;
    MemoryPolicy half = least.policy;
    half.precision.base = Precision::kBf16;
    try {
      list(half, search_.trace(half).plan, "declared", least.plan);
    } catch (const runner::StageError&) {
      // Half precision cannot be planned, for example because it needs real steps.
    }
  }

  const PolicySearch& search_;
  const MemoryPolicy& written_;
  PolicyWay as_written_;  // the other configurations are compared with this one
  PolicyWay whole_;       // settings shared by all configurations of the current search
  std::map<decltype(PolicyWay().key()), Tried> tried_;
};

}  // namespace

PlannedStep choose_policy(const PolicySearch& search) { return WaySearch(search).run(); }

}  // namespace stages
