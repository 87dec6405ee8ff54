#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>

namespace stages {

/// Autocast of the Meta device, on this thread: torch has none. It casts by the kernels that register_meta_kernels()
/// registers, as autocast of the living trace's device does, whose lists of operators differ, and keeps casts of
/// weights as that does.
struct MetaAutocast {
  bool enabled = false;
  at::ScalarType half = at::kBFloat16;
};

MetaAutocast meta_autocast();
/// Another half type forgets the casts that are kept.
void set_meta_autocast(const MetaAutocast& autocast);
void forget_meta_casts();

/// The key of those kernels: that of a device that LibTorch has no kernels for, so nothing else is registered there.
inline constexpr auto kMetaAutocastKey = c10::DispatchKey::AutocastIPU;
/// `forget` drops the casts that they keep on this thread.
void set_meta_cast_keeper(void (*forget)());

}  // namespace stages
