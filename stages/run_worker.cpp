#include "stages/run_worker.h"

#include <unistd.h>

#include <memory>
#include <new>

#include "runner/shared/disk/fault.h"
#include "runner/shared/error/exit_code.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/stages.h"
#include "stages/worker/requests.h"
#include "stages/worker/worker.h"

namespace stages {
namespace {

/// Returns null if the process is allowed too little address space (ulimit -v). Tensors then come
/// from malloc.
std::unique_ptr<CpuPool> make_pool() {
  try {
    return std::make_unique<CpuPool>();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

int run_worker(int events) {
  WorkerSignals& signals = watch_signals();
  const std::unique_ptr<CpuPool> pool = make_pool();
  CountingAllocator allocator;  // enforces memory.budget on the CPU
  allocator.refuse(runner::allocation_to_refuse());
  Worker worker(STDIN_FILENO, events, all_kinds(), all_requests(), signals);
  return static_cast<int>(worker.serve());
}

}  // namespace stages
