#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/kernels_on_cpu/shadow.h"

namespace kernels_on_cpu {

/// An array that kernels may access. An index that is wrong by up to kGap elements is out of bounds
/// and not in another array.
template <typename T>
class DeviceArray {
 public:
  static constexpr std::size_t kGap = 4096;

  DeviceArray(std::string name, const std::vector<T>& values)
      : DeviceArray(std::move(name), values.size(), true) {
    std::copy(values.begin(), values.end(), data());
  }
  /// Kernels must write an element before they read it.
  DeviceArray(std::string name, std::size_t size) : DeviceArray(std::move(name), size, false) {}
  ~DeviceArray() { shadow().remove(data()); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return memory_.get() + kGap; }
  std::vector<T> values() const { return {data(), data() + size_}; }

 private:
  DeviceArray(std::string name, std::size_t size, bool is_written)
      : size_(size), memory_(std::make_unique<T[]>(kGap + size + kGap)) {
    shadow().add({std::move(name), data(), size * sizeof(T), MemoryKind::kGlobal, is_written});
  }

  const std::size_t size_;
  const std::unique_ptr<T[]> memory_;
};

}  // namespace kernels_on_cpu
