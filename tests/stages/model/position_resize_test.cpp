#include "stages/model/pretrained.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

constexpr PositionResize kBothResizes[] = {PositionResize::kBicubic,
                                           PositionResize::kBicubicAntialias};

TEST(PositionResize, ClassTokenPositionIsUnchanged) {
  const at::Tensor positions = torch::arange(10 * 4).reshape({10, 4}) * -1.5F;
  for (const PositionResize how : kBothResizes) {
    for (const std::int64_t tokens : {5, 17, 50}) {
      const at::Tensor resized = resize_positions(positions, tokens, how);
      EXPECT_EQ(resized.sizes().vec(), (std::vector<std::int64_t>{tokens, 4}));
      EXPECT_TRUE(resized[0].equal(positions[0])) << tokens;
    }
  }
}

TEST(PositionResize, RowsAndColumnsAreNotSwapped) {
  // Each patch's position is its row and its column.
  const at::Tensor side = torch::arange(3).to(at::kFloat);
  const at::Tensor grid = torch::stack({side.repeat_interleave(3), side.repeat({3})}, 1);
  const at::Tensor positions = torch::cat({torch::full({1, 2}, 9.0F), grid});
  for (const PositionResize how : kBothResizes) {
    const at::Tensor larger =
        resize_positions(positions, 1 + 36, how).slice(0, 1).reshape({6, 6, 2});
    const at::Tensor rows = larger.select(2, 0), columns = larger.select(2, 1);
    EXPECT_TRUE(rows.allclose(rows.select(1, 0).unsqueeze(1).expand({6, 6}), 0, 1e-5)) << rows;
    EXPECT_TRUE(columns.allclose(columns[0].expand({6, 6}), 0, 1e-5)) << columns;
    EXPECT_GT((rows[5] - rows[0]).min().item<double>(), 1.5);
    EXPECT_GT((columns.select(1, 5) - columns.select(1, 0)).min().item<double>(), 1.5);
  }
}

TEST(PositionResize, EqualTokenCountKeepsThePositions) {
  const at::Tensor positions = torch::arange(20).reshape({5, 4}).to(at::kFloat);
  for (const PositionResize how : kBothResizes)
    EXPECT_TRUE(resize_positions(positions, 5, how).is_same(positions));
}

}  // namespace
}  // namespace stages
