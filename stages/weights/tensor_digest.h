#pragma once

#include <string>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// Returns the SHA-256 of the tensors' names and values, in hexadecimal, regardless of their order.
std::string tensor_digest(const NamedTensors& tensors);

}  // namespace stages
