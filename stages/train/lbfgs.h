#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

namespace stages {

/// Returns a convex function's value at `x`, a vector, and stores its gradient in `gradient`, a
/// vector of the same length and type.
using ConvexFunction = std::function<double(const at::Tensor& x, const at::Tensor& gradient)>;

struct LbfgsOptions {
  std::int64_t max_iterations = 1000;
  double tolerance = 1e-4;    ///< stop when no element of the gradient is larger
  std::int64_t history = 10;  ///< number of vector pairs that approximate the curvature
};

struct Minimum {
  at::Tensor x;
  double value = 0;
  double largest_gradient = 0;  ///< the largest absolute value in the gradient
  std::int64_t iterations = 0;
};

/// Minimizes a convex, differentiable function with L-BFGS (Liu and Nocedal, 1989), starting at
/// `start`, a float32 or float64 vector on the CPU. A line search ends where the strong Wolfe
/// conditions hold (with constants 1e-4 and 0.9); it relies on the slope never decreasing along a
/// line. Stops early if rounding hides any further decrease; largest_gradient is then above the
/// tolerance. Allocates at most lbfgs_vectors() vectors of the length of `start`.
Minimum minimize(const at::Tensor& start, const ConvexFunction& function,
                 const LbfgsOptions& options);

/// Returns the largest number of vectors that minimize() allocates, including its result.
std::int64_t lbfgs_vectors(std::int64_t history);

}  // namespace stages
