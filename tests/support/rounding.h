#pragma once

#include <cstdint>
#include <limits>

#include <torch/types.h>

// How far rounding may change a value, regardless of the order in which a processor's kernels add
// (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1).

/// The rounding error of a sum of `terms` products, relative to the sum of their magnitudes. A
/// fused multiply-add rounds less.
inline double rounding_of_sum(std::int64_t terms, at::ScalarType type) {
  const double half = (type == at::kDouble  ? std::numeric_limits<double>::epsilon()
                       : type == at::kFloat ? std::numeric_limits<float>::epsilon()
                                            : 1.0 / 128) /
                      2;
  return static_cast<double>(terms) * half / (1 - static_cast<double>(terms) * half);
}

/// True if `sums`, each of at most `terms` products, equals `exact` except for rounding.
/// `magnitudes` are the sums of the products' magnitudes.
inline bool is_rounded(const at::Tensor& sums, const at::Tensor& exact,
                       const at::Tensor& magnitudes, std::int64_t terms) {
  const double most = rounding_of_sum(terms, sums.scalar_type());
  return (sums.to(at::kDouble) - exact).abs().le(most * magnitudes).all().item<bool>();
}
