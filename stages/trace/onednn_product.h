#pragma once

#include <cstdint>

#include "stages/trace/onednn.h"

namespace stages::meta {

// What oneDNN, as LibTorch 2.11 has it, takes besides the tensors of matrix products of a half type.

struct ProductShape {
  std::int64_t batch = 1, rows = 0, inner = 0, columns = 0;
  bool is_turned = false;  ///< the first factor lies in memory with its columns whole, as in a weight's gradient
  bool keeps_sums = true;  ///< the result is of the half type, or is added to: sums are put elsewhere first
};

/// Whether torch gives the products to oneDNN at all; else it multiplies by loops of its own, which take nothing.
bool takes_onednn(const ProductShape& shape);
/// In bytes.
std::int64_t product_scratch(const ProductShape& shape, const Cpu& cpu);

}  // namespace stages::meta
