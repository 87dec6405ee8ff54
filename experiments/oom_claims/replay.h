#pragma once

#include <cstdint>
#include <optional>

#include "experiments/oom_claims/dry_run.h"
#include "stages/plan/allocator_replay.h"

namespace oom_claims {

/// What happens between steps and affects memory.
struct Housekeeping {
  std::int64_t clear_every = 0;  ///< steps after which unused segments are released; 0: never
  std::int64_t leak = 0;  ///< bytes that every step leaks; they are live from the next step on
};

/// The result of replaying a dry run according to the rules of a GPU's caching allocator.
struct Replayed {
  std::int64_t peak_allocated = 0, peak_reserved = 0, segments = 0;
  std::optional<std::size_t> failed_step;  ///< the step that ran out of memory, 1-based
};
Replayed replay(const DryRun& run, const stages::AllocatorRules& rules,
                const Housekeeping& housekeeping = {});

/// Returns the size in bytes, to within 2 MiB, of the smallest device on which the run does not
/// fail.
std::int64_t smallest_device(const DryRun& run, stages::AllocatorRules rules,
                             const Housekeeping& housekeeping = {});

}  // namespace oom_claims
