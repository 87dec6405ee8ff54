#pragma once

#include <cstdint>

namespace stages::meta {

/// Of matrices (rows, inner) and (inner, columns), `batch` of them.
struct ProductShape {
  std::int64_t batch = 1, rows = 0, inner = 0, columns = 0;
};

/// Whether torch gives a product of a half type to oneDNN.
bool takes_onednn(const ProductShape& shape);

// Upper bounds, in bytes, of what oneDNN takes besides the factors and the result, whatever the processor and the
// version.

/// Of a half type: each thread puts blocks of both factors in order and adds up float32; or all of a result is added up
/// in float32, for each thread that has one.
std::int64_t half_product_scratch(const ProductShape& shape, std::int64_t threads);
/// Of float32: each thread puts a strip of the second factor in order.
std::int64_t float_product_scratch(const ProductShape& shape, std::int64_t threads);

}  // namespace stages::meta
