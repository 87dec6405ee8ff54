#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "runner/shared/stage/memory_plan.h"

/// What a plan says of a CPU's memory, on whatever processor: no less is counted than its tensors,
/// which are `live`, and no more than what is needed, which has an upper bound of what kernels
/// take; and of that, but for the gaps between tensors, which are not counted, not less than
/// `share`.
inline void expect_counted_as_planned(std::int64_t counted, const runner::MemoryPlan& plan,
                                      double share, const std::string& what = {}) {
  EXPECT_GE(counted, plan.live) << what;
  EXPECT_LE(counted, plan.needed) << what;
  const std::int64_t gaps = plan.reserved - plan.live;
  EXPECT_GE(static_cast<double>(counted), share * static_cast<double>(plan.needed - gaps)) << what;
}
