#include "stages/contrastive/contrastive_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/numerics/precision_map.h"
#include "tests/support/contrastive_formula.h"

namespace stages {
namespace {

std::vector<at::Tensor> in_tiles(const at::Tensor& images, const at::Tensor& texts,
                                 const at::Tensor& scale, const PairGroups& groups,
                                 std::int64_t tile) {
  const std::vector<at::Tensor> leaves = {images.detach().requires_grad_(),
                                          texts.detach().requires_grad_(),
                                          scale.detach().requires_grad_()};
  const at::Tensor loss = contrastive_loss(leaves[0], leaves[1], leaves[2], groups, tile);
  loss.backward();
  return {loss.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

TEST(ContrastiveLoss, MatchesTheFormulaForEveryTile) {
  const at::Tensor images = unit_rows(13, 6, 1), texts = unit_rows(13, 6, 2),
                   scale = torch::tensor(2.6592, at::kDouble);
  const PairGroups of_class{
      torch::tensor(std::vector<std::int64_t>{0, 1, 2, 0, 4, 1, 4, 0, 3, 3, 0, 2, 4}), 5};
  for (const PairGroups& groups : {PairGroups{}, of_class}) {
    const auto expected = as_written(images, texts, scale, groups);
    for (const std::int64_t tile : {1, 4, 13, 100})
      expect_equal(in_tiles(images, texts, scale, groups, tile), expected);
  }
}

TEST(ContrastiveLoss, LargeFactorsDoNotOverflow) {
  const at::Tensor x = unit_rows(5, 4, 3), scale = torch::tensor(8.0, at::kDouble);
  for (const at::Tensor& one : in_tiles(x, -x, scale, {}, 2))
    EXPECT_TRUE(one.isfinite().all().item<bool>());
  expect_equal(in_tiles(x, -x, scale, {}, 2), as_written(x, -x, scale, {}));
}

TEST(ContrastiveLoss, IsComputedInFloat32UnderAutocast) {
  const at::Tensor images = unit_rows(9, 8, 4).to(at::kFloat),
                   texts = unit_rows(9, 8, 5).to(at::kFloat);
  const at::Tensor scale = torch::tensor(4.6052f);
  const double expected = contrastive_loss(images, texts, scale, {}, 4).item<double>();
  const ScopedPrecision half(Precision::kBf16, at::kCPU);
  const at::Tensor actual = contrastive_loss(images, texts, scale, {}, 4);
  EXPECT_EQ(actual.scalar_type(), at::kFloat);
  EXPECT_EQ(actual.item<double>(), expected);
}

TEST(ContrastiveLoss, MeanOverPartsIsADifferentLoss) {
  const at::Tensor images = unit_rows(8, 6, 6), texts = unit_rows(8, 6, 7),
                   scale = torch::tensor(2.0, at::kDouble);
  const auto of = [&](std::int64_t begin, std::int64_t end) {
    return contrastive_loss(images.slice(0, begin, end), texts.slice(0, begin, end), scale, {}, 4)
        .item<double>();
  };
  EXPECT_GT(std::abs((of(0, 4) + of(4, 8)) / 2 - of(0, 8)), 0.1);
}

TEST(ContrastiveLoss, TileStaysSmallComparedWithTheEmbeddings) {
  const auto tile = [](std::int64_t pairs, std::int64_t width) {
    return contrastive_tile(torch::empty({pairs, width}, at::kMeta));
  };
  EXPECT_EQ(tile(512, 6), 128);
  EXPECT_EQ(tile(95, 512), 128);
  EXPECT_EQ(tile(96, 512), 256);
  EXPECT_EQ(tile(383, 512), 256);
  EXPECT_EQ(tile(384, 512), 512);
  EXPECT_EQ(tile(100'000, 512), 512);
}

TEST(Nearest, IsTheFirstOfEqualLargestProductsForEveryTile) {
  const at::Tensor queries = unit_rows(11, 5, 8), some = unit_rows(7, 5, 9);
  const at::Tensor candidates = torch::cat({some, some});  // each twice
  const at::Tensor expected = queries.mm(some.t()).argmax(1);
  for (const std::int64_t tile : {1, 3, 7, 50})
    EXPECT_TRUE(nearest(queries, candidates, tile).equal(expected)) << tile;
}

}  // namespace
}  // namespace stages
