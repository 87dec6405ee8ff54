#include "stages/machine/memory_meter.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/machine/gpu.h"

namespace stages {
namespace {

/// All meters that measure a peak. A device has only one high-water mark, so a meter that resets
/// the mark first passes its old value on to the other meters.
struct Watchers {
  std::mutex mutex;
  std::vector<MemoryMeter*> meters;
};

Watchers& watchers() {
  static Watchers all;  // one per process, like the high-water mark
  return all;
}

/// Returns the high-water mark of CPU memory, and resets it.
std::int64_t take_cpu_peak() {
  if (auto* const counter = CountingAllocator::innermost()) return counter->take_peak();
  const std::int64_t peak = kilobytes_field("/proc/self/status", "VmHWM");
  // "5" makes the kernel reset the high-water mark. A sandbox may forbid this; the mark then only
  // rises.
  std::ofstream("/proc/self/clear_refs") << "5";
  if (peak > 0) return peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// Also false for the GPU of a plan if this program does not support GPUs.
bool is_gpu(c10::Device device) { return device.is_cuda() && gpu::is_supported(); }

std::int64_t take_gpu_peak(c10::Device device) {
  c10::DeviceAllocator& allocator = gpu::allocator();
  if (!allocator.initialized()) return 0;
  const std::int64_t peak = allocator.getDeviceStats(device.index()).allocated_bytes[kAll].peak;
  allocator.resetPeakStats(device.index());
  return peak;
}

MemoryUse gpu_use(c10::Device device) {
  c10::DeviceAllocator& allocator = gpu::allocator();
  if (!allocator.initialized()) return {};
  const auto stats = allocator.getDeviceStats(device.index());
  return {.allocated = stats.allocated_bytes[kAll].current,
          .reserved = stats.reserved_bytes[kAll].current,
          .retries = stats.num_alloc_retries};
}

}  // namespace

std::int64_t kilobytes_field(const std::filesystem::path& file, std::string_view field) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field) && line.size() > field.size() && line[field.size()] == ':') {
      return std::strtoll(line.c_str() + field.size() + 1, nullptr, 10) * 1024;
    }
  }
  // Without /proc, ask the C library for the machine's memory.
  if (in.is_open() || file != "/proc/meminfo") return 0;
  const std::int64_t pages = sysconf(field == "MemTotal" ? _SC_PHYS_PAGES : _SC_AVPHYS_PAGES);
  return std::max<std::int64_t>(pages, 0) * sysconf(_SC_PAGESIZE);
}

MemoryMeter::MemoryMeter(c10::Device device) : device_(device) {
  const std::lock_guard lock(watchers().mutex);
  watchers().meters.push_back(this);
}

MemoryMeter::~MemoryMeter() {
  const std::lock_guard lock(watchers().mutex);
  std::erase(watchers().meters, this);
}

std::int64_t MemoryMeter::peak_since_last() {
  const std::lock_guard lock(watchers().mutex);
  const std::int64_t peak = is_gpu(device_) ? take_gpu_peak(device_) : take_cpu_peak();
  for (MemoryMeter* const meter : watchers().meters) {
    if (meter->device_ == device_) meter->peak_ = std::max(meter->peak_, peak);
  }
  return std::exchange(peak_, 0);
}

std::int64_t MemoryMeter::in_use() const {
  const auto* const counter = device_.is_cpu() ? CountingAllocator::innermost() : nullptr;
  return counter ? counter->live_bytes() : use().allocated;
}

MemoryUse MemoryMeter::use() const {
  if (is_gpu(device_)) return gpu_use(device_);
  const auto* const counter = CountingAllocator::innermost();
  if (const CpuPool* const pool = counter ? counter->pool() : nullptr)
    return {.allocated = counter->live_bytes(),
            .reserved = pool->reserved(),
            .retries = counter->refusals() + pool->retries()};
  const std::int64_t resident = kilobytes_field("/proc/self/status", "VmRSS");
  if (!counter) return {.allocated = resident, .reserved = resident};
  return {.allocated = counter->live_bytes(), .reserved = resident, .retries = counter->refusals()};
}

std::int64_t MemoryMeter::budget() const {
  const std::int64_t all = available();
  if (device_.is_cpu()) {
    if (const auto* const counter = CountingAllocator::innermost())
      return counter->limit().value_or(all);
  }
  if (is_gpu(device_) && gpu::allocator().initialized())
    return static_cast<std::int64_t>(gpu::memory_share(device_) * static_cast<double>(all));
  return all;
}

std::int64_t MemoryMeter::available() const {
  if (is_gpu(device_)) return gpu::properties(device_).memory_bytes;
  const std::int64_t machine = kilobytes_field("/proc/meminfo", "MemTotal");
  return std::min(machine, cgroup_memory().value_or(machine));
}

namespace {

namespace fs = std::filesystem;

/// Returns the folders that may limit `controller`, the process's own first.
std::vector<fs::path> folders(const fs::path& root, const std::string& controller) {
  std::vector<fs::path> result;
  const auto add_with_parents = [&](const fs::path& mount, fs::path group) {
    for (; group.has_relative_path(); group = group.parent_path())
      result.push_back(mount / group.relative_path());
    result.push_back(mount);
  };
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/group" or "4:cpu,cpuacct:/group"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers == ",,") add_with_parents(mount, line.substr(second + 1));
    else if (controllers.find("," + controller + ",") != controllers.npos) {
      add_with_parents(mount / controller, line.substr(second + 1));
    }
  }
  return result;
}

/// Returns the words of the single line of `file`; empty if the file is missing.
std::vector<std::string> words(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

std::optional<double> positive_number(const std::string& word) {
  char* end = nullptr;
  const double number = std::strtod(word.c_str(), &end);
  if (word.empty() || *end || !(number > 0)) return std::nullopt;  // "max", "-1"
  return number;
}

template <typename T>
void lower(std::optional<T>& least, T candidate) {
  least = least ? std::min(*least, candidate) : candidate;
}

}  // namespace

std::optional<double> cgroup_cpus(const fs::path& root) {
  std::optional<double> least;
  for (const fs::path& folder : folders(root, "cpu")) {
    std::vector<std::string> limit = words(folder / "cpu.max");  // "150000 100000"
    if (limit.empty()) {
      limit = words(folder / "cpu.cfs_quota_us");
      const auto period = words(folder / "cpu.cfs_period_us");
      limit.insert(limit.end(), period.begin(), period.end());
    }
    if (limit.size() < 2) continue;
    const auto quota = positive_number(limit[0]), period = positive_number(limit[1]);
    if (quota && period) lower(least, *quota / *period);
  }
  return least;
}

std::optional<std::int64_t> cgroup_memory(const fs::path& root) {
  constexpr double kUnlimited = 1e18;  // version 1 writes "no limit" as the largest number of pages
  std::optional<std::int64_t> least;
  for (const fs::path& folder : folders(root, "memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = words(folder / name);
      const auto bytes = limit.empty() ? std::nullopt : positive_number(limit[0]);
      if (bytes && *bytes < kUnlimited) lower(least, static_cast<std::int64_t>(*bytes));
    }
  }
  return least;
}

}  // namespace stages
