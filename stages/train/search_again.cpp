#include "stages/train/search_again.h"

#include <algorithm>
#include <utility>

#include "runner/error/stage_error.h"
#include "stages/machine/device_error.h"
#include "stages/memory/memory_budget.h"

namespace stages {

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
