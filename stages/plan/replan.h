#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "stages/memory/policy.h"
#include "stages/plan/choose_policy.h"

namespace stages {

/// The next way of computing the same step that needs at most `bytes`, after `failed` did not fit; nullopt: there is
/// none.
using Replan = std::function<std::optional<MemoryPolicy>(const MemoryPolicy& failed, std::int64_t bytes)>;

/// The next way without any prediction, for batches of at most `units`: parts of half the size, rounded up, down to
/// min_micro_batch, where the loss needs it in two passes; then the blocks recomputed. A part of half the size is what
/// max_retries itself asks for; it is left out where `allow` is bit, as two passes are unless it is exact, and
/// recomputed blocks where it is nothing. `accepts` says whether a training can obey a policy without changing what is
/// trained.
std::optional<MemoryPolicy> next_plan(const MemoryPolicy& failed, std::int64_t units,
                                      const std::function<bool(const MemoryPolicy&)>& accepts);

/// Of what a failed way needs, the most that another may need.
inline constexpr double kShrunk = 0.85;

/// Looks for another way by the search that has chosen the one that failed: the quickest that needs at most `bytes`,
/// and what the recipe's budget leaves of them. That the failed one was predicted to fit says that the prediction was
/// wrong, or that others have taken what it counted on: so the other needs less than it by kShrunk, or the least that
/// any does, but always less. Where the optimizer's state lies was decided when the training began, and stays. nullopt
/// where there is none, and where the search itself runs out of memory. What `search` borrows is borrowed.
Replan search_again(PolicySearch search);

}  // namespace stages
