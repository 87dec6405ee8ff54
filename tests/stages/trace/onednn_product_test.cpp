#include "stages/trace/onednn_product.h"

#include <array>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"

namespace stages::meta {
namespace {

struct Threads {
  explicit Threads(int wanted) { at::set_num_threads(wanted); }
  ~Threads() { at::set_num_threads(before); }
  const int before = at::get_num_threads();
};

/// What a product of bfloat16 takes beside its result.
std::int64_t measured(const ProductShape& shape) {
  const auto make = [](at::IntArrayRef sizes) { return torch::zeros(sizes, torch::kBFloat16); };
  const at::Tensor a = shape.is_turned ? make({shape.inner, shape.rows}).t() : make({shape.rows, shape.inner}),
                   b = make({shape.inner, shape.columns});
  a.mm(b);  // what the kernel keeps is there from then on
  const CountingAllocator counter;
  const at::Tensor y = a.mm(b);
  return counter.peak_bytes() - static_cast<std::int64_t>(y.nbytes());
}

// A line of oneDNN's choice of blocks each: few rows, few columns, a long sum, a sum shared by threads.
TEST(OneDnnProduct, TakesWhatIsMeasured) {
  const ProductShape shapes[] = {{.rows = 17, .inner = 512, .columns = 128},
                                 {.rows = 1, .inner = 4096, .columns = 1000},
                                 {.rows = 197, .inner = 768, .columns = 192},
                                 {.rows = 1024, .inner = 4096, .columns = 64},
                                 {.rows = 768, .inner = 197, .columns = 768, .is_turned = true},
                                 {.rows = 100, .inner = 2048, .columns = 50, .is_turned = true},
                                 {.rows = 10, .inner = 392, .columns = 96, .is_turned = true}};
  for (const int threads : {1, 2, 3, 8}) {
    const Threads scope(threads);
    for (const ProductShape& shape : shapes) {
      const double is = static_cast<double>(measured(shape)),
                   said = this_processor().bf16
                              ? static_cast<double>(product_scratch(shape, {this_processor(), threads}))
                              : 0;
      const std::string which = std::to_string(shape.rows) + " x " + std::to_string(shape.inner) + " x " +
                                std::to_string(shape.columns) + ", " + std::to_string(threads) + " threads";
      EXPECT_GE(said, is - 512) << which;
      if (this_processor().is_modelled) EXPECT_LE(said, 2048 + 1.01 * is) << which;
    }
  }
}

TEST(OneDnnProduct, OfFloat32WithoutASumNeedsNoPlaceForSums) {
  const Cpu cpu{.processor = {}, .threads = 2};
  const ProductShape shape{.rows = 64, .inner = 64, .columns = 64};
  ProductShape without = shape;
  without.keeps_sums = false;
  EXPECT_GT(product_scratch(shape, cpu), product_scratch(without, cpu) + 2 * 4 * 16 * 64);
}

// What the model says with one, two, three and eight threads for a processor with AVX-512 and bfloat16, on any machine;
// where this one is such a processor, TakesWhatIsMeasured holds the model against it.
TEST(OneDnnProduct, IsThatOfTheProcessorThatAPlanIsFor) {
  const std::pair<ProductShape, std::array<std::int64_t, 4>> expected[] = {
      {{.rows = 17, .inner = 512, .columns = 128}, {70912, 141440, 211200, 562560}},
      {{.rows = 1024, .inner = 4096, .columns = 64}, {738432, 1476352, 1610432, 3479040}},
      {{.rows = 768, .inner = 197, .columns = 768, .is_turned = true}, {210048, 329472, 629120, 775680}},
      {{.rows = 100, .inner = 2048, .columns = 50, .is_turned = true}, {195488, 390464, 330416, 1125120}}};
  for (const auto& [shape, bytes] : expected) {
    std::size_t i = 0;
    for (const std::int64_t threads : {1, 2, 3, 8}) {
      EXPECT_EQ(product_scratch(shape, {Processor{}, threads}), bytes[i++]) << shape.rows << ", " << threads;
      EXPECT_GT(product_scratch(shape, {Processor{.is_modelled = false}, threads}),
                product_scratch(shape, {Processor{.kernels = Kernels::kAvx512}, threads}))
          << "a processor that is not modelled gets the most of all";
    }
  }
}

TEST(OneDnnProduct, TinyOnesAreTorchsOwn) {
  EXPECT_FALSE(takes_onednn(ProductShape{.rows = 16, .inner = 16, .columns = 16}));
  EXPECT_TRUE(takes_onednn(ProductShape{.rows = 16, .inner = 16, .columns = 17}));
}

}  // namespace
}  // namespace stages::meta
