#include "experiments/oom_claims/replay.h"

namespace oom_claims {

Replayed replay(const DryRun& run, const stages::AllocatorRules& rules,
                const Housekeeping& housekeeping) {
  stages::AllocatorReplay allocator(rules);
  Replayed result;
  std::size_t step = 0;
  const auto end_step = [&] {
    ++step;
    if (housekeeping.leak > 0 && !allocator.allocate(run.storages.size() + step, housekeeping.leak))
      return false;
    const auto every = static_cast<std::size_t>(housekeeping.clear_every);
    if (every > 0 && step % every == 0) allocator.empty_cache();
    return true;
  };
  bool is_alive = true;
  for (std::size_t i = 0; i < run.events.size() && is_alive; ++i) {
    if (i == run.steps[step + 1]) is_alive = end_step();
    const stages::TraceEvent& event = run.events[i];
    if (!event.is_birth) allocator.free(event.storage);
    else if (is_alive)
      is_alive = allocator.allocate(event.storage, run.storages[event.storage].bytes);
  }
  if (!is_alive) result.failed_step = step + 1;
  result.peak_allocated = allocator.peak_allocated();
  result.peak_reserved = allocator.peak_reserved();
  result.segments = allocator.segments();
  return result;
}

std::int64_t smallest_device(const DryRun& run, stages::AllocatorRules rules,
                             const Housekeeping& housekeeping) {
  constexpr std::int64_t kStep = 2 << 20;
  std::int64_t fails = 0, runs = replay(run, rules, housekeeping).peak_reserved / kStep + 1;
  while (runs - fails > 1) {
    const std::int64_t middle = (fails + runs) / 2;
    rules.limit = middle * kStep;
    (replay(run, rules, housekeeping).failed_step ? fails : runs) = middle;
  }
  return runs * kStep;
}

}  // namespace oom_claims
