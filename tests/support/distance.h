#pragma once

#include <torch/types.h>

/// The distance of `a` from `b`, relative to b's length.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}
