#include "stages/plan/meta_kernels.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/model/linear_layer.h"
#include "stages/plan/memory_trace.h"
#include "tests/support/scoped_threads.h"

namespace stages::meta {
namespace {

/// Returns the memory of a product beyond its result.
std::int64_t counted(const std::function<at::Tensor()>& product) {
  product();  // allocates what the kernel caches
  const CountingAllocator counter;
  const at::Tensor y = product();
  return counter.peak_bytes() - static_cast<std::int64_t>(y.nbytes());
}

// Covers few rows, few columns, long sums, sums divided among threads, and transposed factors.
TEST(ProductBound, IsNeverExceeded) {
  const ProductShape shapes[] = {{.rows = 17, .inner = 512, .columns = 128},
                                 {.rows = 1, .inner = 4096, .columns = 1000},
                                 {.rows = 197, .inner = 768, .columns = 192},
                                 {.rows = 1024, .inner = 4096, .columns = 64},
                                 {.rows = 768, .inner = 197, .columns = 768},
                                 {.rows = 100, .inner = 2048, .columns = 50},
                                 {.rows = 10, .inner = 392, .columns = 96},
                                 {.rows = 1576, .inner = 64, .columns = 3072},
                                 {.batch = 24, .rows = 50, .inner = 16, .columns = 50},
                                 {.batch = 3, .rows = 197, .inner = 197, .columns = 64}};
  for (const int threads : {1, 2, 3, 8}) {
    const ScopedThreads scope(threads);
    for (const ProductShape& shape : shapes) {
      const std::string which = std::to_string(shape.batch) + " of " + std::to_string(shape.rows) +
                                " x " + std::to_string(shape.inner) + " x " +
                                std::to_string(shape.columns) + ", " + std::to_string(threads) +
                                " threads";
      for (const bool is_turned : {false, true}) {
        if (!this_processor().bf16) break;  // torch's own loops need no memory
        const auto make = [&](std::int64_t rows, std::int64_t columns, at::ScalarType type) {
          const at::TensorOptions options(type);
          return is_turned ? torch::zeros({shape.batch, columns, rows}, options).transpose(1, 2)
                           : torch::zeros({shape.batch, rows, columns}, options);
        };
        const at::Tensor a = make(shape.rows, shape.inner, at::kBFloat16),
                         b = make(shape.inner, shape.columns, at::kBFloat16);
        const bool is_one = shape.batch == 1;
        EXPECT_LE(counted([&] { return is_one ? a[0].mm(b[0]) : a.bmm(b); }),
                  half_product_scratch(shape, threads))
            << which;
      }
      const at::Tensor x = torch::zeros({shape.rows, shape.inner}),
                       weight = torch::zeros({shape.columns, shape.inner});
      EXPECT_LE(counted([&] { return linear_layer(x, weight, {}); }),
                float_product_scratch(shape, threads))
          << which;
    }
  }
}

TEST(ProductBound, EveryThreadHasItsOwnScratch) {
  const ProductShape shape{.rows = 64, .inner = 4096, .columns = 8};
  EXPECT_GT(half_product_scratch(shape, 4), 3 * half_product_scratch(shape, 1));
  EXPECT_GT(float_product_scratch(shape, 4), 3 * float_product_scratch(shape, 1));
}

// Without instructions for a half-precision type, the whole result is accumulated in float32.
TEST(ProductBound, CoversTheSumsOfAWholeResult) {
  const ProductShape shape{.rows = 10'000, .inner = 64, .columns = 1000};
  EXPECT_GE(half_product_scratch(shape, 1), 4 * 10'000 * 1000);
}

TEST(ProductBound, TinyProductsAreComputedByTorch) {
  EXPECT_FALSE(takes_onednn(ProductShape{.rows = 16, .inner = 16, .columns = 16}));
  EXPECT_TRUE(takes_onednn(ProductShape{.rows = 16, .inner = 16, .columns = 17}));
}

}  // namespace
}  // namespace stages::meta
