#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/train/block_parts.h"

namespace stages {

/// Scalars on the device for steps without a fused kernel, so that the host need not know whether a
/// step is skipped. A step multiplies every change by keep(), which is 1, or 0 if the step is
/// skipped. Operations with host numbers would allocate memory, so numbers are written into tensors
/// first.
class StepScalars {
 public:
  static std::int64_t bytes();
  /// `block` has bytes() bytes. `skip` is as in Optimizer::step().
  StepScalars(const at::Tensor& block, const at::Tensor* skip);

  /// Scalars for the rule's own use, as float64.
  static constexpr int kFree = 4;
  at::Tensor free(int index) const { return wide_[kFirstFree + index]; }
  /// Space for a scalar of this type; `index` is 0 or 1. own(), kept() and similar functions use 0.
  at::Tensor room(at::ScalarType type, int index) const;
  /// Space for a boolean.
  const at::Tensor& truth() const { return truth_; }

  /// As float64 and as float32; null if no step can be skipped.
  const at::Tensor& keep() const { return wide_[0]; }
  const at::Tensor& keep_float() const { return keep_float_; }
  /// True if the step is skipped; undefined if no step can be skipped.
  const at::Tensor& skipped() const { return skipped_; }

  /// scalar · number, in place.
  void multiply(const at::Tensor& scalar, double number) const;
  /// Returns the scalar in another type, valid until one of these functions is called again.
  at::Tensor own(at::ScalarType type, const at::Tensor& scalar) const;
  /// number, or 0 if the step is skipped.
  at::Tensor kept(at::ScalarType type, double number) const;
  /// 1 + change, or 1 if the step is skipped.
  at::Tensor changed(at::ScalarType type, double change) const;
  /// number in this type, whether the step is skipped or not.
  at::Tensor number(at::ScalarType type, double number) const;

 private:
  static constexpr int kFirstFree = 3;
  std::vector<at::Tensor> wide_;     // float64: keep, two for temporary use, and those for the rule
  std::vector<at::Tensor> narrow_;   // float32
  std::vector<at::Tensor> doubles_;  // float64, for room()
  at::Tensor keep_float_, skipped_, truth_;
};

}  // namespace stages
