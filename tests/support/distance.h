#pragma once

#include <torch/types.h>

/// How far `a` is from `b`, as a part of b's length.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}
