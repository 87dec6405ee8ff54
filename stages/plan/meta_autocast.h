#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// Autocast of the Meta device, on this thread: torch has none. It casts as autocast of the living trace's device does,
/// whose lists of operators differ, and keeps casts of weights as that does. Needs register_meta_kernels().
struct MetaAutocast {
  bool enabled = false;
  at::ScalarType half = at::kBFloat16;
};

MetaAutocast meta_autocast();
/// Another half type forgets the casts that are kept.
void set_meta_autocast(const MetaAutocast& autocast);
void forget_meta_casts();

}  // namespace stages
