#include "stages/plan/replan.h"

#include <algorithm>
#include <utility>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/device_error.h"
#include "stages/plan/memory_budget.h"

namespace stages {

std::optional<MemoryPolicy> next_plan(const MemoryPolicy& failed, std::int64_t units,
                                      const std::function<bool(const MemoryPolicy&)>& accepts) {
  const std::int64_t size = std::min(failed.micro_batch.value_or(units), units);
  const std::int64_t half = std::max((size + 1) / 2, failed.min_micro_batch);
  MemoryPolicy next = failed;
  if (half < size && failed.allow != Allow::kBit) {
    next.micro_batch = half;
    next.optimizer_in_backward = false;
    if (accepts(next)) return next;
    next.two_pass = true;
    if (failed.allow == Allow::kExact && !failed.two_pass && accepts(next)) return next;
    next = failed;
  }
  next.activation_checkpointing = {.blocks = true};
  const bool is_new = next.activation_checkpointing != failed.activation_checkpointing;
  if (is_new && failed.allow != Allow::kNothing && accepts(next)) return next;
  return {};
}

Replan search_again(PolicySearch search) {
  return [search = std::move(search)](const MemoryPolicy& failed, std::int64_t bytes) -> std::optional<MemoryPolicy> {
    try {
      const std::int64_t needed = search.trace(failed).plan.predicted;
      MemoryPolicy written = search.written;
      written.offloads_optimizer = failed.offloads_optimizer;
      written.offload_is_open = false;
      PolicySearch again{written, search.batch, 0, search.has_host, search.trace, search.seconds};
      again.budget = std::min(memory_budget(search.written, runner::NamedBytes{"what is free", bytes})->bytes,
                              static_cast<std::int64_t>(kShrunk * static_cast<double>(needed)));
      ChosenPolicy other = choose_policy(again);
      if (other.plan.predicted >= needed) return {};
      return std::move(other.policy);
    } catch (const runner::StageError&) {
      return {};  // half a part that the recipe wrote, say, is not one of those that are searched
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      return {};
    }
  };
}

}  // namespace stages
