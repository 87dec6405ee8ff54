#include "stages/plan/time_model.h"

#include <algorithm>

namespace stages {
namespace {

/// A kind of device; of a CPU for each of its threads.
struct Speed {
  double flops;   // a second
  double bytes;   // a second, written and read again
  double launch;  // seconds for each operation
};

constexpr Speed kCpuThread = {.flops = 60e9, .bytes = 4e9, .launch = 4e-6};
constexpr Speed kGpu = {.flops = 15e12, .bytes = 400e9, .launch = 6e-6};
constexpr double kBus = 12e9;        // bytes a second, between pinned memory and a GPU: PCIe 3.0 with 16 lanes
constexpr int kThreadsOfMemory = 4;  // a few threads have all that the memory gives

}  // namespace

double predicted_seconds(const StepWork& work, const Backend& backend) {
  if (backend.device == at::kCUDA)
    return work.flops / kGpu.flops + work.traffic / kGpu.bytes + work.operations * kGpu.launch + work.moved / kBus;
  const int threads = std::max(backend.threads, 1);
  return work.flops / (kCpuThread.flops * threads) +
         work.traffic / (kCpuThread.bytes * std::min(threads, kThreadsOfMemory)) + work.operations * kCpuThread.launch;
}

std::string_view time_model_version() { return "time-2"; }

}  // namespace stages
