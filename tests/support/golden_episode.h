#pragma once

#include <cmath>

#include <torch/types.h>

// Numbers that formulas make, for an episode of three ways, two shots and two queries a class: what
// the few-shot transformer's authors compute from them is known to six decimals.

/// base + amplitude · sin(0.37 i + tag) at the flat index i, in float64.
inline at::Tensor sine_weight(at::IntArrayRef shape, double tag, double amplitude = 0.5,
                              double base = 0) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return (base + amplitude * torch::sin(0.37 * torch::arange(count, torch::kDouble) + tag))
      .reshape(shape);
}

/// sin(0.7 (c + 1) (j + 1) + 0.9 (x + 1)) of class c, image j and feature x: (3, 4, 4), the first
/// two images of each class its support.
inline at::Tensor golden_features() {
  at::Tensor z = torch::empty({3, 4, 4}, torch::kDouble);
  for (int c = 0; c < 3; ++c) {
    for (int j = 0; j < 4; ++j) {
      for (int x = 0; x < 4; ++x) z[c][j][x] = std::sin(0.7 * (c + 1) * (j + 1) + 0.9 * (x + 1));
    }
  }
  return z;
}

/// (3, 2, 4) and (6, 4).
inline at::Tensor golden_supports() { return golden_features().slice(1, 0, 2).contiguous(); }
inline at::Tensor golden_queries() { return golden_features().slice(1, 2, 4).reshape({6, 4}); }
