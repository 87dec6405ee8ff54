#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>

namespace stages {

/// The memory use of a device at one moment, in bytes.
struct MemoryUse {
  std::int64_t allocated = 0;  ///< in live tensors
  std::int64_t reserved = 0;   ///< held for them by a GPU's caching allocator or the CpuPool;
                               ///< without either, the resident set
  std::int64_t retries = 0;  ///< number of blocks granted only after unused ones were returned, or
                             ///< refused
};

/// Measures the memory of tensors on a device. On a GPU: what LibTorch's caching allocator has
/// handed out. On a CPU: what the innermost CountingAllocator (counting_allocator.h) has or, if
/// there is none, the process's resident set. Any number of meters may watch the same device; each
/// has its own peak. Each is used by one thread at a time.
class MemoryMeter {
 public:
  explicit MemoryMeter(c10::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// The peak use in bytes since the last call, or since the start if the kernel does not allow a
  /// reset.
  std::int64_t peak_since_last();
  /// Bytes in live tensors.
  std::int64_t in_use() const;
  MemoryUse use() const;
  /// Bytes that may be used: the run's limit, else available().
  std::int64_t budget() const;
  /// Total bytes: the machine's memory or its control group's limit; all of a GPU's memory.
  std::int64_t available() const;

 private:
  const c10::Device device_;
  std::int64_t peak_ = 0;  // seen by another meter since the last call of peak_since_last()
};

/// The value of "VmHWM: 1234 kB" in a file such as /proc/self/status, in bytes; 0 if missing.
std::int64_t kilobytes_field(const std::filesystem::path& file, std::string_view field);

/// The limits of the kernel's control groups for this process, as set by containers and batch
/// systems. Version 1 and 2, the process's own group and all of its ancestors. `root` is / except
/// in tests.

/// CPU seconds per second, e.g. 1.5; nullopt if unlimited.
std::optional<double> cgroup_cpus(const std::filesystem::path& root = "/");

/// Bytes of memory; nullopt if unlimited.
std::optional<std::int64_t> cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace stages
