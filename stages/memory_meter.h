#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <c10/core/Device.h>

namespace stages {

/// Measures the memory that counts on a device: of a CPU the process's resident set, of a GPU what LibTorch's caching
/// allocator has handed out.
class MemoryMeter {
 public:
  explicit MemoryMeter(c10::Device device) : device_(device) {}

  /// The highest use in bytes since the last call, or since the start where the kernel does not let us reset it.
  std::int64_t peak_since_last();
  /// Bytes in use now.
  std::int64_t in_use() const;
  /// Bytes that may be used: the machine's memory or its control group's limit; the whole of a GPU.
  std::int64_t budget() const;

 private:
  c10::Device device_;
};

/// "VmHWM: 1234 kB" of a file such as /proc/self/status, in bytes; 0 when it is not there.
std::int64_t kilobytes_field(const std::filesystem::path& file, std::string_view field);

}  // namespace stages
