#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// Contiguous copies of many tensors, one after another in host memory, to be summed over the
/// ranks. Tensors of the same type are next to each other, so they are added together. Allocates
/// no tensor memory.
class PackedTensors {
 public:
  explicit PackedTensors(const std::vector<at::Tensor>& tensors);

  /// The memory that a copy of all tensors needs.
  std::int64_t bytes() const { return bytes_; }
  /// Copies the tensors to `place`, which must be aligned to 16 bytes.
  void pack(std::uint8_t* place) const;
  /// Sets the tensors to the sum of the copies, added in this order. Overwrites the first copy.
  void set_to_sum(const std::vector<std::uint8_t*>& copies) const;

 private:
  /// Tensors of one type.
  struct Run {
    at::ScalarType type;
    std::vector<at::Tensor> tensors = {};
    std::int64_t numbers = 0, begin = 0;  // begin: in bytes
  };
  static at::Tensor numbers_of(const Run& run, std::uint8_t* copy);

  std::vector<Run> runs_;
  std::int64_t bytes_ = 0;
};

}  // namespace stages
