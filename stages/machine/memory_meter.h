#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>

namespace stages {

/// What the memory of a device looks like at one moment; bytes.
struct MemoryUse {
  std::int64_t allocated = 0;  ///< in tensors that are alive
  std::int64_t reserved =
      0;  ///< held for them, by a GPU's caching allocator or the CpuPool; without, what is resident
  std::int64_t retries = 0;  ///< how often a block was to be had only after unused ones were given
                             ///< back, or was refused
};

/// Measures the memory of tensors on a device: of a GPU what LibTorch's caching allocator has
/// handed out, of a CPU what the innermost CountingAllocator (counting_allocator.h) has. Where
/// there is none it is the process's resident set. Any number of meters may watch the same device;
/// the peak of each is its own. Used by one thread at a time each.
class MemoryMeter {
 public:
  explicit MemoryMeter(c10::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// The highest use in bytes since the last call, or since the start where the kernel does not let
  /// us reset it.
  std::int64_t peak_since_last();
  /// Bytes in tensors that are alive now.
  std::int64_t in_use() const;
  MemoryUse use() const;
  /// Bytes that may be used: the limit that the run is held to, else available().
  std::int64_t budget() const;
  /// Bytes that there are: the machine's memory or its control group's limit; the whole of a GPU.
  std::int64_t available() const;

 private:
  const c10::Device device_;
  std::int64_t peak_ = 0;  // that another meter has seen since the last call of peak_since_last()
};

/// "VmHWM: 1234 kB" of a file such as /proc/self/status, in bytes; 0 when it is not there.
std::int64_t kilobytes_field(const std::filesystem::path& file, std::string_view field);

/// What the kernel's control groups allow this process: containers and batch systems set these.
/// Version 1 and 2, the process's own group and everything above it. `root` is / but in tests.

/// CPU time a second, e.g. 1.5; nullopt when it is not limited.
std::optional<double> cgroup_cpus(const std::filesystem::path& root = "/");

/// Bytes of memory; nullopt when they are not limited.
std::optional<std::int64_t> cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace stages
