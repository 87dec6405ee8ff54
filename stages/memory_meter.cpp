#include "stages/memory_meter.h"

#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "stages/cgroup.h"

#ifdef RETORT_LIBTORCH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stages {
namespace {

std::int64_t cpu_peak_since_last() {
  const std::int64_t peak = kilobytes_field("/proc/self/status", "VmHWM");
  // "5" makes the kernel forget the high-water mark; a sandbox may forbid it, and then the mark only rises.
  std::ofstream("/proc/self/clear_refs") << "5";
  if (peak > 0) return peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

#ifdef RETORT_LIBTORCH_CUDA
std::int64_t gpu_bytes(c10::Device device, bool peak) {
  using namespace c10::cuda::CUDACachingAllocator;
  if (!get()->initialized()) return 0;
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto& stat = getDeviceStats(device.index()).allocated_bytes[kAll];
  if (peak) resetPeakStats(device.index());
  return peak ? stat.peak : stat.current;
}
#endif

}  // namespace

std::int64_t kilobytes_field(const std::filesystem::path& file, std::string_view field) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field) && line.size() > field.size() && line[field.size()] == ':') {
      return std::strtoll(line.c_str() + field.size() + 1, nullptr, 10) * 1024;
    }
  }
  return 0;
}

std::int64_t MemoryMeter::peak_since_last() {
#ifdef RETORT_LIBTORCH_CUDA
  if (device_.is_cuda()) return gpu_bytes(device_, true);
#endif
  return cpu_peak_since_last();
}

std::int64_t MemoryMeter::in_use() const {
#ifdef RETORT_LIBTORCH_CUDA
  if (device_.is_cuda()) return gpu_bytes(device_, false);
#endif
  return kilobytes_field("/proc/self/status", "VmRSS");
}

std::int64_t MemoryMeter::budget() const {
#ifdef RETORT_LIBTORCH_CUDA
  if (device_.is_cuda())
    return static_cast<std::int64_t>(at::cuda::getDeviceProperties(device_.index())->totalGlobalMem);
#endif
  const std::int64_t machine = kilobytes_field("/proc/meminfo", "MemTotal");
  return std::min(machine, cgroup_memory().value_or(machine));
}

}  // namespace stages
