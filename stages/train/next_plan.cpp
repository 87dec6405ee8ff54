#include "stages/train/next_plan.h"

#include <algorithm>

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

}  // namespace stages
