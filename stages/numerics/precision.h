#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace stages {

/// Number formats of a training step: bf16 and fp16 are autocast, weights and their gradients stay float32.
enum class Precision { kFp32, kBf16, kFp16 };

/// What recipes and records call them.
inline constexpr std::array<std::pair<std::string_view, Precision>, 3> kPrecisions = {
    {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}}};
std::string_view name(Precision precision);
/// The type of a product's result.
at::ScalarType scalar_type(Precision precision);

/// The precision of the innermost ScopedPrecision of this thread. What computes activations again in the backward pass,
/// where no scope is left, opens one of the precision that it found in the forward pass.
Precision current_precision(c10::Device device);

/// While it lives, operations of this thread run in the format that autocast gives them on `device`'s type: products
/// in the lower precision, losses and normalisations in float32. Within another scope kFp32 means no autocast; the
/// other one's format comes back in the end. Casts of weights are kept until the outermost scope ends, so that one
/// spans no change of a weight.
class [[nodiscard]] ScopedPrecision {
 public:
  ScopedPrecision(Precision precision, c10::Device device);
  ~ScopedPrecision();
  ScopedPrecision(const ScopedPrecision&) = delete;
  ScopedPrecision& operator=(const ScopedPrecision&) = delete;

 private:
  const c10::Device device_;
  const Precision before_;
  const at::ScalarType half_before_;  // the type that autocast would use where it is off
  const bool is_change_;
};

}  // namespace stages
