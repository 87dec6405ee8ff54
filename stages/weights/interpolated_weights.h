#pragma once

#include "stages/tensor/named_tensors.h"

namespace stages {

/// Returns `from` + `amount` * (`to` - `from`) for each floating-point tensor, on the CPU and in
/// new memory; the result is exactly `from` for an amount of 0 and `to` for 1. Other tensors are
/// taken from `from`. With an amount of 1 / n, an average of n - 1 sets of weights becomes an
/// average of n. Throws std::invalid_argument if names or shapes differ.
NamedTensors interpolated_weights(const NamedTensors& from, const NamedTensors& to, double amount);

}  // namespace stages
