#include "stages/contrastive/retrieval_examples.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "tests/support/shown_dataset.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;

class RetrievalExamples : public testing::Test {
 protected:
  RetrievalExamples() {
    pairs_.names = {"0", "1", "2", "4"};
    pairs_.captions = {"a car", "a dog", "a tree"};
    pairs_.texts = torch::tensor({{1.0, 0.0}, {0.6, 0.8}, {0.0, 1.0}}, torch::kFloat);
    // The last two images are trees: one is nearer to the dog, and one is nearest to the car.
    pairs_.images =
        torch::tensor({{1.0, 0.0}, {0.5, 0.866}, {0.28, 0.96}, {0.96, 0.28}}, torch::kFloat);
    pairs_.text_of = {0, 1, 2, 2};
    ranks_ = retrieval_ranks(pairs_.images, pairs_.texts, pairs_.text_of, /*tile=*/2);
  }
  nlohmann::json examples(std::int64_t count) const {
    write_retrieval_examples(pairs_, ranks_, dataset_, count, folder_.path());
    return nlohmann::json::parse(folder_.read("examples/examples.json"));
  }

  TemporaryFolder folder_;
  ShownDataset dataset_;
  RetrievedPairs pairs_;
  RetrievalRanks ranks_;
};

TEST_F(RetrievalExamples, ShowTheWorstAndBestRanked) {
  const auto json = examples(2);
  std::vector<std::string> names;
  for (const auto& one : json) names.push_back(one["name"]);
  EXPECT_THAT(names, ElementsAre("4", "0", "1"));  // sample 2 ranks its caption first, too
  EXPECT_EQ(json[0]["caption"], "a tree");
  EXPECT_EQ(json[0]["rank"], 3);
  EXPECT_THAT(json[0]["nearest"], ElementsAre("a car", "a dog", "a tree"));
  EXPECT_EQ(json[1]["rank"], 1);
  EXPECT_EQ(json[1]["nearest"][0], "a car");
}

TEST_F(RetrievalExamples, AreNotWrittenIfDisabled) {
  write_retrieval_examples(pairs_, ranks_, dataset_, 0, folder_.path());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "examples"));
}

TEST_F(RetrievalExamples, SimilarityIsTheMeanCosineOfACaptionsImages) {
  write_similarity(pairs_, folder_.path());
  const auto json = nlohmann::json::parse(folder_.read("similarity.json"));
  EXPECT_THAT(json["captions"], ElementsAre("a car", "a dog", "a tree"));
  ASSERT_EQ(json["cosines"].size(), 3u);
  EXPECT_NEAR(json["cosines"][0][1], 0.6, 1e-6);
  EXPECT_NEAR(json["cosines"][2][0], (0.28 + 0.96) / 2, 1e-6);
  EXPECT_NEAR(json["cosines"][2][2], (0.96 + 0.28) / 2, 1e-6);
}

TEST_F(RetrievalExamples, SimilarityListsOnlyAFewCaptions) {
  const std::int64_t count = 47;
  pairs_.captions.clear();
  pairs_.text_of.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    pairs_.captions.push_back(std::to_string(i));
    pairs_.text_of.push_back(i);
  }
  pairs_.images = pairs_.texts = torch::eye(count);
  write_similarity(pairs_, folder_.path());
  const auto json = nlohmann::json::parse(folder_.read("similarity.json"));
  ASSERT_EQ(json["captions"].size(), 20u);
  EXPECT_EQ(json["captions"][0], "0");
  EXPECT_EQ(json["captions"][19], "44");
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(json["cosines"][i][i], 1) << i;
}

}  // namespace
}  // namespace stages
