#pragma once

#include "stages/train/choose_policy.h"
#include "stages/train/next_plan.h"

namespace stages {

/// Of what a failed way needs, the most that another may need.
inline constexpr double kShrunk = 0.85;

/// Looks for another way by the search that has chosen the one that failed: the quickest that needs at most `bytes`,
/// and what the recipe's budget leaves of them. That the failed one was predicted to fit says that the prediction was
/// wrong, or that others have taken what it counted on: so the other needs less than it by kShrunk, or the least that
/// any does, but always less. Where the optimizer's state lies was decided when the training began, and stays. nullopt
/// where there is none, and where the search itself runs out of memory. What `search` borrows is borrowed.
Replan search_again(PolicySearch search);

}  // namespace stages
