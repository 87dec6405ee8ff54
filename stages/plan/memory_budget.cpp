#include "stages/plan/memory_budget.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/Context.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/units.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/device.h"
#include "stages/machine/gpu.h"
#include "stages/machine/memory_meter.h"
#include "stages/memory/policy.h"
#include "stages/plan/gpu_backend.h"

namespace stages {
namespace {

// Set once, before anything is planned.
int ranks_of_host = 1;
std::optional<std::int64_t> least_of_ranks, gpu_memory_of_rank;

}  // namespace

void share_host_memory(int ranks) { ranks_of_host = ranks; }
void limit_host_memory(std::int64_t bytes) { least_of_ranks = bytes; }
int host_memory_ranks() { return ranks_of_host; }

runner::NamedBytes host_memory(const std::filesystem::path& root) {
  runner::NamedBytes all{"the machine's memory",
                         kilobytes_field(root / "proc/meminfo", "MemTotal")};
  const std::optional<std::int64_t> group = cgroup_memory(root);
  if (group && *group < all.bytes) all = {"the control group's limit", *group};
  if (ranks_of_host > 1) all = {"a rank's share of " + all.name, all.bytes / ranks_of_host};
  if (!least_of_ranks || *least_of_ranks >= all.bytes) return all;
  return {"the memory of the rank that has the least", *least_of_ranks};
}

std::int64_t gpu_memory(c10::Device gpu, int ranks) {
  const std::int64_t bytes = MemoryMeter(gpu).available() / ranks;
  if (!gpu::is_supported()) return bytes;
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto free = static_cast<std::int64_t>(gpu::allocator().getMemoryInfo(gpu.index()).first);
  const std::int64_t own = MemoryMeter(gpu).use().reserved + gpu_context(gpu_model(gpu)).at_start;
  return std::min(bytes, free / ranks + own);
}

void set_gpu_memory(std::int64_t bytes) { gpu_memory_of_rank = bytes; }

runner::NamedBytes device_memory(c10::Device device) {
  if (device.is_cpu()) return host_memory();
  if (!device.is_cuda()) return {"the GPU's memory", MemoryMeter(device).available()};
  if (gpu_memory_of_rank)
    return {"the free GPU memory of the rank that has the least", *gpu_memory_of_rank};
  return {"the GPU's free memory", gpu_memory(device, /*ranks=*/1)};
}

std::optional<runner::NamedBytes> memory_budget(const MemoryPolicy& policy,
                                                const std::optional<runner::NamedBytes>& whole) {
  std::optional<runner::NamedBytes> smallest = whole;
  if (whole) {
    const auto share =
        static_cast<std::int64_t>(policy.memory_fraction * static_cast<double>(whole->bytes));
    if (share < whole->bytes) smallest = {"memory_fraction of " + whole->name, share};
  }
  const std::string option =
      policy.pointer.empty() ? "budget" : policy.pointer.substr(1) + ".budget";
  if (policy.budget_share && whole) {
    const auto share =
        static_cast<std::int64_t>(*policy.budget_share * static_cast<double>(whole->bytes));
    if (share < smallest->bytes) smallest = {option + " of " + whole->name, share};
  }
  if (!policy.budget) return smallest;
  if (!smallest || *policy.budget < smallest->bytes)
    return runner::NamedBytes{option, *policy.budget};
  if (*policy.budget > smallest->bytes)
    smallest->name += ", which is less than " + option + ", " + runner::size_text(*policy.budget);
  return smallest;
}

std::int64_t memory_budget(const MemoryPolicy& policy, c10::Device device) {
  return memory_budget(policy, device_memory(device))->bytes;
}

ScopedMemoryBudget::ScopedMemoryBudget(std::int64_t bytes, c10::Device device) : device_(device) {
  if (device.is_cpu()) {
    if (auto* const allocator = CountingAllocator::innermost()) {
      bytes_before_ = allocator->limit();
      allocator->set_limit(bytes);
    }
  }
  if (device.is_cuda() && gpu::is_supported()) {
    at::globalContext().lazyInitDevice(at::kCUDA);  // otherwise the allocator does not know the GPU
    const auto all = static_cast<double>(MemoryMeter(device).available());
    share_before_ = gpu::memory_share(device);
    const auto given = static_cast<double>(
        std::max<std::int64_t>(bytes - gpu_context(gpu_model(device)).in_all, 0));
    gpu::set_memory_share(std::min(given / all, 1.0), device);
  }
}

ScopedMemoryBudget::~ScopedMemoryBudget() {
  if (device_.is_cpu()) {
    if (auto* const allocator = CountingAllocator::innermost()) allocator->set_limit(bytes_before_);
  }
  if (!device_.is_cuda() || !gpu::is_supported()) return;
  try {
    gpu::set_memory_share(share_before_, device_);
  } catch (const c10::Error&) {
    // After a fatal CUDA error, every call fails; that error is already being reported.
  }
}

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
  return [search = std::move(search)](const MemoryPolicy& failed,
                                      std::int64_t bytes) -> std::optional<MemoryPolicy> {
    try {
      const std::int64_t needed = search.trace(failed).plan.needed;
      MemoryPolicy written = search.written;
      written.offloads_optimizer = failed.offloads_optimizer;
      written.sharding = failed.sharding;
      written.offload_is_open = written.shard_is_open = false;
      PolicySearch again{written,      search.batch,  0, search.has_host, search.has_ranks,
                         search.trace, search.seconds};
      again.budget =
          std::min(memory_budget(search.written, runner::NamedBytes{"free memory", bytes})->bytes,
                   static_cast<std::int64_t>(kShrunk * static_cast<double>(needed)));
      PlannedStep other = choose_policy(again);
      if (other.plan.needed >= needed) return {};
      return std::move(other.policy);
    } catch (const runner::StageError&) {
      return {};  // for example, the failed configuration halved a micro_batch that is now fixed by
                  // the recipe
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      return {};
    }
  };
}

}  // namespace stages
