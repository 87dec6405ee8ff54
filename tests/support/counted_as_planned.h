#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "runner/shared/stage/memory_plan.h"

/// Checks the counted memory of a CPU against the plan, on any processor: at least its tensors,
/// `live`, are counted, and at most the needed bytes, which include an upper bound for kernels. At
/// least `share` of the needed bytes is counted, leaving out gaps between tensors.
inline void expect_counted_as_planned(std::int64_t counted, const runner::MemoryPlan& plan,
                                      double share, const std::string& what = {}) {
  EXPECT_GE(counted, plan.live) << what;
  EXPECT_LE(counted, plan.needed) << what;
  const std::int64_t gaps = plan.reserved - plan.live;
  EXPECT_GE(static_cast<double>(counted), share * static_cast<double>(plan.needed - gaps)) << what;
}
