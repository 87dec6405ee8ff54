#pragma once

#include <string>

#include <c10/core/Device.h>

namespace stages {

/// Number formats of a training step: bf16 and fp16 are autocast, weights and their gradients stay float32.
enum class Precision { kFp32, kBf16, kFp16 };

/// "fp32", "bf16" or "fp16".
Precision precision_from(const std::string& name);

/// While it lives, operations of this thread run in the format that autocast gives them on `device`'s type: products
/// in the lower precision, losses and normalisations in float32. Does nothing for kFp32. Casts of weights are kept
/// until it ends, so one scope spans no change of a weight.
class ScopedPrecision {
 public:
  ScopedPrecision(Precision precision, c10::Device device);
  ~ScopedPrecision();
  ScopedPrecision(const ScopedPrecision&) = delete;
  ScopedPrecision& operator=(const ScopedPrecision&) = delete;

 private:
  const bool active_;
  const c10::DeviceType type_;
};

}  // namespace stages
