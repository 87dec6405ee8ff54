#include "stages/contrastive/evaluate_retrieval.h"

#include <algorithm>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

using testing::ElementsAre;
using testing::Pair;
using Ranks = std::vector<std::int64_t>;

/// Returns images that have the products `rows` with the texts torch::eye().
at::Tensor scores(std::vector<std::vector<double>> rows) {
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(torch::tensor(row, at::kDouble));
  return torch::stack(tensors);
}

RetrievalRanks ranks_of(const at::Tensor& table, const Ranks& text_of = {},
                        std::int64_t tile = 4096) {
  return retrieval_ranks(table, torch::eye(table.size(1), at::kDouble), text_of, tile);
}

/// Follows the definition: counts the candidates that rank before the first hit, in both
/// directions.
RetrievalRanks by_definition(const at::Tensor& table, const Ranks& text_of) {
  const auto ranks = [&](const at::Tensor& queries, const auto& is_found) {
    Ranks result;
    for (std::int64_t i = 0; i < queries.size(0); ++i) {
      const at::Tensor order =
          std::get<1>(queries[i].sort(/*stable=*/true, 0, /*descending=*/true));
      std::int64_t rank = 0;
      while (!is_found(i, order[rank].item<std::int64_t>())) ++rank;
      result.push_back(rank);
    }
    return result;
  };
  const auto own = [&](std::int64_t image) { return text_of[static_cast<std::size_t>(image)]; };
  return {
      ranks(table, [&](std::int64_t image, std::int64_t text) { return own(image) == text; }),
      ranks(table.t(), [&](std::int64_t text, std::int64_t image) { return own(image) == text; })};
}

TEST(RetrievalRanks, CountGreaterAndEarlierEqualSimilarities) {
  const RetrievalRanks ranks =
      ranks_of(scores({{0.5, 0.9, 0.5}, {0.5, 0.5, 0.1}, {0.1, 0.5, 0.5}}));
  EXPECT_THAT(ranks.image_to_text, ElementsAre(1, 1, 1));
  EXPECT_THAT(ranks.text_to_image, ElementsAre(0, 1, 1));
}

TEST(RetrievalRanks, CaptionWithSeveralImagesFindsAnyOfThem) {
  const RetrievalRanks ranks = ranks_of(scores({{0.1, 0.9}, {0.8, 0.3}, {0.7, 0.6}}), {0, 1, 0});
  EXPECT_THAT(ranks.image_to_text, ElementsAre(1, 1, 0));
  EXPECT_THAT(ranks.text_to_image, ElementsAre(1, 2));  // the first text finds the third image,
                                                        // which ranks after the second
}

TEST(RetrievalRanks, MatchTheDefinitionForEveryTile) {
  torch::manual_seed(3);
  Ranks own, shared;
  for (std::int64_t i = 0; i < 41; ++i) {
    own.push_back(i);
    shared.push_back((i * i + i / 5) % 13);
  }
  for (const Ranks& text_of : {own, shared}) {
    const std::int64_t texts = *std::ranges::max_element(text_of) + 1;
    const at::Tensor table = torch::randint(0, 12, {41, texts}).to(at::kDouble);
    const RetrievalRanks expected = by_definition(table, text_of);
    for (const std::int64_t tile : {1, 8, 20, 41, 100}) {
      const RetrievalRanks found = ranks_of(table, text_of, tile);
      EXPECT_EQ(found.image_to_text, expected.image_to_text) << tile;
      EXPECT_EQ(found.text_to_image, expected.text_to_image) << tile;
    }
  }
}

TEST(RetrievalRanks, EqualCaptionsTieAtAnyPosition) {
  torch::manual_seed(5);
  constexpr std::int64_t kPairs = 150;
  const auto unit = [](const at::Tensor& rows) { return rows / rows.norm(2, 1, true); };
  for (const std::int64_t width : {67, 512}) {
    const at::Tensor images = unit(torch::randn({kPairs, width}));
    // All texts are equal, so each image ranks its own text after those with a lower index.
    const at::Tensor texts = unit(torch::randn({1, width})).expand({kPairs, width}).contiguous();
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Ranks first =
          retrieval_ranks(images.to(type), texts.to(type), {}, kPairs).text_to_image;
      for (const std::int64_t tile : {1, 3, 17, 64, 149}) {
        const RetrievalRanks ranks = retrieval_ranks(images.to(type), texts.to(type), {}, tile);
        for (std::int64_t i = 0; i < kPairs; ++i)
          ASSERT_EQ(ranks.image_to_text[static_cast<std::size_t>(i)], i) << width << " " << tile;
        EXPECT_EQ(ranks.text_to_image, first) << width << " " << tile;
      }
    }
  }
}

TEST(RetrievalRanks, CanBeStoppedBetweenTiles) {
  int steps = 0;
  const auto stop = [&] {
    if (++steps == 3) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(retrieval_ranks(torch::eye(40), torch::eye(40), {}, 10, stop), std::runtime_error);
  steps = -100;
  EXPECT_THAT(retrieval_ranks(torch::eye(40), torch::eye(40), {}, 10, stop).image_to_text,
              testing::Each(0));
  EXPECT_EQ(steps, -100 + 4 + 16) << "only tiles that may contain a match are computed twice";
}

TEST(RetrievalMetrics, CountRanksFromOneAndRoundTheMedianDown) {
  const RetrievalMetrics even = retrieval_metrics(Ranks{0, 9, 3, 4}, Ranks{1, 4, 5, 10});
  EXPECT_DOUBLE_EQ(even.mean_rank, 5);
  EXPECT_DOUBLE_EQ(even.median_rank, 4);
  EXPECT_THAT(even.recall, ElementsAre(Pair(1, 0.25), Pair(4, 0.5), Pair(5, 0.75), Pair(10, 1)));
  EXPECT_DOUBLE_EQ(retrieval_metrics(Ranks{7, 2, 5}, Ranks{}).median_rank, 6);
}

}  // namespace
}  // namespace stages
