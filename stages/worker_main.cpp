#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string_view>

#include "runner/shared/disk/fault.h"
#include "runner/shared/error/exit_code.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/stages.h"
#include "stages/worker/requests.h"
#include "stages/worker/worker.h"

namespace {

std::optional<int> events_descriptor(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--events-fd") != 0) return std::nullopt;
  const std::string_view text = argv[2];
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return fcntl(number, F_SETFD, FD_CLOEXEC) == 0 ? std::optional(number) : std::nullopt;
}

/// Null if the process may have too little address space (ulimit -v): tensors then come from
/// malloc.
std::unique_ptr<stages::CpuPool> make_pool() {
  try {
    return std::make_unique<stages::CpuPool>();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto events = events_descriptor(argc, argv);
  if (!events) {
    std::fputs("retort starts retort-worker, which does nothing by itself: type `retort --help`\n",
               stderr);
    return static_cast<int>(runner::ExitCode::kUsage);
  }
  stages::WorkerSignals& signals = stages::watch_signals();
  const std::unique_ptr<stages::CpuPool> pool = make_pool();
  stages::CountingAllocator allocator;  // enforces memory.budget on a CPU
  allocator.refuse(runner::allocation_to_refuse());
  stages::Worker worker(STDIN_FILENO, *events, stages::all_kinds(), stages::all_requests(),
                        signals);
  return static_cast<int>(worker.serve());
}
