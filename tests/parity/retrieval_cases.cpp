// Retrieval ranks, compared with open_clip, from a table of scores with ties. The texts are unit
// vectors, so their products with the images are the scores.

#include "stages/contrastive/evaluate_retrieval.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

void expect_direction(const std::vector<std::int64_t>& ranks, const nlohmann::json& recorded,
                      const std::string& what) {
  SCOPED_TRACE(what);
  EXPECT_EQ(ranks, recorded.at("ranks").get<std::vector<std::int64_t>>());
  std::vector<std::int64_t> recall_at;
  for (const auto& [name, value] : recorded.items()) {
    if (name.starts_with("R@")) recall_at.push_back(std::stoll(name.substr(2)));
  }
  const RetrievalMetrics metrics = retrieval_metrics(ranks, recall_at);
  expect_close(metrics.mean_rank, recorded.at("mean_rank"), "mean rank");
  expect_close(metrics.median_rank, recorded.at("median_rank"), "median rank");
  EXPECT_EQ(metrics.recall.size() + 3, recorded.size());
  for (const auto& [k, share] : metrics.recall) {
    const std::string name = "R@" + std::to_string(k);
    expect_close(share, recorded.at(name), name);
  }
}

void compare_retrieval(const RecordedCase& recorded) {
  const at::Tensor scores = tensor_of(recorded.json.at("scores"));
  const at::Tensor axes = torch::eye(scores.size(0), at::kDouble);
  for (const std::int64_t tile : {4096, 5}) {
    SCOPED_TRACE(tile);
    const RetrievalRanks ranks = retrieval_ranks(scores, axes, {}, tile);
    expect_direction(ranks.image_to_text, recorded.json.at("image_to_text"), "image to text");
    expect_direction(ranks.text_to_image, recorded.json.at("text_to_image"), "text to image");
  }
}

}  // namespace

std::vector<CaseKind> retrieval_cases() {
  return {number_kind("Retrievals", "retrieval", compare_retrieval)};
}
