#include "stages/plan/product_bound.h"

#include <algorithm>

namespace stages::meta {
namespace {

constexpr std::int64_t kFloat = 4, kHalf = 2;           // bytes
constexpr std::int64_t kColumns = 64, kMostRows = 512;  // of a block
constexpr std::int64_t kAligned = 4096;

}  // namespace

bool takes_onednn(const ProductShape& shape) {
  constexpr std::int64_t kSmallest = 16 * 16 * 16;
  return shape.batch * shape.rows * shape.inner * shape.columns > kSmallest;
}

std::int64_t half_product_scratch(const ProductShape& shape, std::int64_t threads) {
  // A sum is padded to pairs and vectors, and to a distance that the cache likes.
  const std::int64_t rows = std::min(shape.rows + 32, kMostRows), inner = shape.inner + 128;
  const std::int64_t blocks = threads * (kHalf * inner * (kColumns + rows) + 2 * kFloat * rows * kColumns + 1024);
  const std::int64_t whole = std::min(threads, shape.batch) * kFloat * shape.rows * shape.columns;
  return std::max(blocks, whole) + kAligned;
}

std::int64_t float_product_scratch(const ProductShape& shape, std::int64_t threads) {
  return threads * kFloat * kColumns * (shape.inner + 256) + kAligned;
}

}  // namespace stages::meta
