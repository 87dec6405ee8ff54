#pragma once

#include <cstdint>
#include <optional>

#include "experiments/oom_claims/dry_run.h"
#include "stages/plan/allocator_replay.h"

namespace oom_claims {

/// What besides the steps themselves happens to the memory.
struct Housekeeping {
  std::int64_t clear_every = 0;  ///< steps after which unused segments are given back; 0: never
  std::int64_t leak = 0;         ///< bytes that every step leaves alive, counted in the next one
};

/// What the caching allocator of a GPU has done with a dry run.
struct Replayed {
  std::int64_t peak_allocated = 0, peak_reserved = 0, segments = 0;
  std::optional<std::size_t> failed_step;  ///< that ran out of memory, from 1
};
Replayed replay(const DryRun& run, const stages::AllocatorRules& rules,
                const Housekeeping& housekeeping = {});

/// The smallest device on which the run does not fail, in bytes, to 2 MiB.
std::int64_t smallest_device(const DryRun& run, stages::AllocatorRules rules,
                             const Housekeeping& housekeeping = {});

}  // namespace oom_claims
