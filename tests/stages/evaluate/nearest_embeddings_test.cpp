#include "stages/evaluate/nearest_embeddings.h"

#include <limits>

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

/// Rows of small integers: their products have the same bits in any order of addition.
at::Tensor whole_numbers(std::int64_t rows, std::int64_t width, std::uint64_t seed) {
  return torch::randint(-3, 4, {rows, width}, at::detail::createCPUGenerator(seed),
                        torch::TensorOptions(at::kFloat));
}

std::vector<std::int64_t> rows_of(const std::vector<Neighbor>& neighbors) {
  std::vector<std::int64_t> rows;
  for (const Neighbor& neighbor : neighbors) rows.push_back(neighbor.row);
  return rows;
}

TEST(NearestEmbeddings, AreSortedBySimilarityThenByRow) {
  const at::Tensor rows =
      torch::tensor({{0.f, 2.f}, {3.f, 0.f}, {1.f, 1.f}, {5.f, 0.f}, {-1.f, 0.f}});
  const auto found = nearest_embeddings(torch::tensor({{7.f, 0.f}}), rows, 4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(rows_of(found[0]), ElementsAre(1, 3, 2, 0));
  EXPECT_EQ(found[0][0].similarity, 1);
  EXPECT_EQ(found[0][3].similarity, 0);
}

TEST(NearestEmbeddings, LengthsDoNotMatter) {
  const at::Tensor rows = torch::tensor({{1.f, 0.f}, {0.f, 1.f}});
  for (const float length : {1e-20f, 1.f, 1e18f}) {
    const auto found = nearest_embeddings(torch::tensor({{length, 0.f}}), rows, 1);
    EXPECT_THAT(found[0], ElementsAre(Neighbor{0, 1}));
  }
}

TEST(NearestEmbeddings, BlockwiseSearchMatchesAllSimilarities) {
  // There are more rows and queries than are compared at once.
  const at::Tensor rows = whole_numbers(4100, 2, 1), queries = whole_numbers(260, 2, 2);
  const auto found = nearest_embeddings(queries, rows, 3);
  ASSERT_EQ(found.size(), 260u);
  const auto unit = [](const at::Tensor& x) { return x / x.norm(2, 1, true).clamp_min(1e-30); };
  const at::Tensor all = unit(queries).mm(unit(rows).t());
  const at::Tensor best = std::get<0>(all.topk(3, 1));
  for (std::int64_t query = 0; query < 260; ++query) {
    const auto& of_query = found[static_cast<std::size_t>(query)];
    ASSERT_EQ(of_query.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      // Both similarities are sums of two products of numbers up to 1.
      constexpr double kRounding = 8 * std::numeric_limits<float>::epsilon();
      EXPECT_NEAR(of_query[i].similarity, best[query][static_cast<std::int64_t>(i)].item<double>(),
                  kRounding);
      EXPECT_NEAR(of_query[i].similarity, all[query][of_query[i].row].item<double>(), kRounding);
    }
  }
}

TEST(NearestEmbeddings, AllRowsAreReturnedIfThereAreFewer) {
  const at::Tensor rows = torch::tensor({{1.f, 0.f}, {0.f, 1.f}});
  EXPECT_EQ(nearest_embeddings(rows, rows, 10)[0].size(), 2u);
  EXPECT_THAT(nearest_embeddings(rows.narrow(0, 0, 0), rows, 10), IsEmpty());
}

TEST(NearestEmbeddings, RowsCanBeExcluded) {
  const at::Tensor rows = torch::tensor({{1.f, 0.f}, {0.f, 1.f}, {1.f, 1.f}});
  const auto found =
      nearest_embeddings(rows, rows, 1, [](auto query, auto row) { return query == row; });
  EXPECT_THAT(found[0], ElementsAre(Field(&Neighbor::row, 2)));
  EXPECT_THAT(found[2], ElementsAre(Field(&Neighbor::row, 0)));
}

TEST(NearestEmbeddings, ZeroVectorsHaveSimilarityZero) {
  const auto found = nearest_embeddings(torch::zeros({1, 2}), torch::ones({2, 2}), 2);
  EXPECT_THAT(found[0], ElementsAre(Neighbor{0, 0}, Neighbor{1, 0}));
}

TEST(NearestEmbeddings, ProgressCallbackCanStopTheSearch) {
  struct Stopped {};
  const at::Tensor rows = torch::ones({600, 2});
  std::vector<std::int64_t> done;
  EXPECT_THROW(nearest_embeddings(rows, rows, 1, {},
                                  [&](std::int64_t queries) {
                                    done.push_back(queries);
                                    if (done.size() == 2) throw Stopped();
                                  }),
               Stopped);
  EXPECT_THAT(done, ElementsAre(256, 512));
}

}  // namespace
}  // namespace stages
