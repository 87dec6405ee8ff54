#include "stages/plan/cpu_backend.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "stages/machine/block_pool.h"
#include "stages/machine/counting_allocator.h"
#include "stages/plan/summarize.h"

namespace stages {

std::int64_t reserved_by_pool(const TraceHistory& history) {
  BlockPool pool;
  std::unordered_map<std::size_t, std::int64_t> addresses;  // by storage
  for (std::size_t i = 0; i < history.events().size(); ++i) {
    const TraceEvent& event = history.events()[i];
    if (event.is_birth) {
      const auto address = pool.allocate(CountingAllocator::kHeadBytes + history.storage(i).bytes);
      if (address) addresses.emplace(event.storage, *address);
    } else if (const auto block = addresses.extract(event.storage)) {
      pool.free(block.mapped());
    }
  }
  return pool.peak_reserved();
}

namespace {

/// Fractions of the planned bytes.
constexpr double kShare = 0.005, kShareOfHalves = 0.01;
/// Plus the largest small block: small tensors may be placed differently than in the plan.
constexpr std::int64_t kMisplaced = BlockPool::kSmall;

/// A small share of the planned bytes: gaps depend on where tensors lie, and kernels that take less
/// than their bound may leave other gaps.
runner::NamedBytes margin_of(std::int64_t planned, const std::vector<TracedStorage>& storages) {
  const bool has_halves = std::ranges::any_of(
      storages, [](const auto& one) { return at::isReducedFloatingType(one.dtype); });
  const auto share = static_cast<std::int64_t>((has_halves ? kShareOfHalves : kShare) *
                                               static_cast<double>(planned));
  return {.name = std::string(kMarginTerm),
          .bytes = share + kMisplaced,
          .note = "for gaps between tensors that differ from the plan"};
}

/// What kernels may take for themselves, measured by how much more is reserved with it.
runner::NamedBytes kernel_scratch(const MemoryTrace& trace, std::size_t first_event,
                                  const runner::MemoryPlan& plan) {
  const std::int64_t with =
      reserved_by_pool(TraceHistory(trace, first_event, /*has_scratch=*/true));
  return {.name = std::string(kKernelScratchTerm),
          .bytes = std::max<std::int64_t>(with - plan.reserved, 0),
          .note = "the most that kernels use themselves on any processor, with " +
                  std::to_string(plan.threads) + (plan.threads == 1 ? " thread" : " threads")};
}

}  // namespace

void add_cpu_terms(runner::MemoryPlan& plan, const MemoryTrace& trace, std::size_t first_event) {
  runner::NamedBytes scratch = kernel_scratch(trace, first_event, plan);
  plan.needed += scratch.bytes;
  const runner::NamedBytes margin = margin_of(plan.needed, trace.storages());
  plan.needed += margin.bytes;
  plan.terms = {margin, std::move(scratch)};
}

double seconds_on_cpu(const StepWork& work, int threads) {
  constexpr double kFlops = 60e9, kBytes = 4e9;  // per second and thread
  constexpr double kLaunch = 4e-6;               // seconds for each operation
  constexpr int kThreadsOfMemory = 4;            // a few use the full memory bandwidth
  const int used = std::max(threads, 1);
  return work.flops / (kFlops * used) + work.traffic / (kBytes * std::min(used, kThreadsOfMemory)) +
         work.operations * kLaunch;
}

}  // namespace stages
