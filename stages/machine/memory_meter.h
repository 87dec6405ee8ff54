#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>

namespace stages {

/// A device's memory use at one moment, in bytes.
struct MemoryUse {
  std::int64_t allocated = 0;  ///< in live tensors
  std::int64_t reserved = 0;   ///< reserved by a GPU's caching allocator or the CpuPool; without
                               ///< either, the resident set
  std::int64_t retries = 0;  ///< number of blocks that were refused, or succeeded only after unused
                             ///< blocks were returned
};

/// Measures the memory of tensors on a device. On a GPU: the bytes handed out by LibTorch's caching
/// allocator. On a CPU: those handed out by the innermost CountingAllocator; without one, the
/// resident set of the process. Any number of meters may watch the same device; each has its own
/// peak. A meter is used by one thread at a time.
class MemoryMeter {
 public:
  explicit MemoryMeter(c10::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// Returns the peak use in bytes since the last call or, if the kernel does not allow the peak to
  /// be reset, since the process started.
  std::int64_t peak_since_last();
  /// Bytes in live tensors.
  std::int64_t in_use() const;
  MemoryUse use() const;
  /// Bytes that may be used: the run's limit; without one, available().
  std::int64_t budget() const;
  /// Total bytes: on a CPU, the machine's memory or the limit of its control group; on a GPU, all
  /// of its memory.
  std::int64_t available() const;

 private:
  const c10::Device device_;
  std::int64_t peak_ = 0;  // as read by any meter since this one's last peak_since_last()
};

/// Returns the value of a field such as "VmHWM: 1234 kB" in a file such as /proc/self/status, in
/// bytes; 0 if it is missing.
std::int64_t kilobytes_field(const std::filesystem::path& file, std::string_view field);

/// The limits set for this process by control groups, as used by containers and batch systems:
/// versions 1 and 2, in its own group and all ancestors. `root` is / except in tests.

/// Returns the limit in CPU seconds per second, such as 1.5; nullopt if unlimited.
std::optional<double> cgroup_cpus(const std::filesystem::path& root = "/");

/// Returns the limit in bytes; nullopt if unlimited.
std::optional<std::int64_t> cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace stages
