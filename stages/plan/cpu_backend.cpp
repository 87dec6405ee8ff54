#include "stages/plan/cpu_backend.h"

#include <algorithm>
#include <unordered_map>

#include "stages/machine/block_pool.h"
#include "stages/machine/counting_allocator.h"

namespace stages {

std::int64_t reserved_by_pool(const TraceHistory& history) {
  BlockPool pool;
  std::unordered_map<std::size_t, std::int64_t> addresses;  // storage to address
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

double seconds_on_cpu(const StepWork& work, int threads) {
  constexpr double kFlops = 60e9, kBytes = 4e9;  // rates per second and thread
  constexpr double kLaunch = 4e-6;               // seconds for each operation
  constexpr int kThreadsOfMemory = 4;            // a few threads saturate the memory bandwidth
  const int used = std::max(threads, 1);
  return work.flops / (kFlops * used) + work.traffic / (kBytes * std::min(used, kThreadsOfMemory)) +
         work.operations * kLaunch;
}

}  // namespace stages
