#include "runner/parent/report/caption_similarity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;

class CaptionSimilarityTest : public testing::Test {
 protected:
  std::optional<CaptionSimilarity> read(const std::string& text) const {
    folder_.write("nodes/retrieval/similarity.json", text);
    return read_similarity(folder_.path(), "retrieval");
  }
  TemporaryFolder folder_;
};

TEST_F(CaptionSimilarityTest, IsDrawnWithItsRange) {
  const auto similarity =
      read(R"({"captions": ["a <b> car", "a dog"], "cosines": [[0.5, 0.1], [0.2, 0.75]]})");
  ASSERT_TRUE(similarity);
  const std::string svg = draw_similarity(*similarity, "clip").svg();
  EXPECT_THAT(svg, HasSubstr("from 0.10 to 0.75"));
  EXPECT_THAT(svg,
              HasSubstr("images of &quot;a dog&quot;, text &quot;a &lt;b&gt; car&quot;: 0.200"));
}

TEST_F(CaptionSimilarityTest, LabelsAreTheWordsThatDiffer) {
  const auto similarity = read(
      R"({"captions": ["a photo of a AM General Hummer, a type of car", "a photo of a BMW M3, a type of car"],
          "cosines": [[0.5, 0.1], [0.2, 0.75]]})");
  ASSERT_TRUE(similarity);
  const std::string svg = draw_similarity(*similarity, "clip").svg();
  EXPECT_THAT(svg, HasSubstr(">AM General Hummer,</text>"));
  EXPECT_THAT(svg, HasSubstr(">BMW M3,</text>"));
  EXPECT_THAT(svg, HasSubstr(">captions: a photo of a … a type of car</text>"));
  for (const char* text : {">0.10</text>", ">0.75</text>", ">cosine</text>"})
    EXPECT_THAT(svg, HasSubstr(text));
}

TEST_F(CaptionSimilarityTest, EqualCaptionsKeepAWord) {
  const auto similarity =
      read(R"({"captions": ["a dog", "a dog"], "cosines": [[0.5, 0.1], [0.2, 0.75]]})");
  ASSERT_TRUE(similarity);
  EXPECT_THAT(draw_similarity(*similarity, "clip").svg(), HasSubstr(">dog</text>"));
}

TEST_F(CaptionSimilarityTest, EqualCosinesAreDrawn) {
  const auto similarity = read(R"({"captions": ["a"], "cosines": [[0.5]]})");
  ASSERT_TRUE(similarity);
  EXPECT_THAT(draw_similarity(*similarity, "clip").svg(), HasSubstr("from 0.50 to 0.50"));
}

TEST_F(CaptionSimilarityTest, DamagedFilesAreIgnored) {
  EXPECT_FALSE(read_similarity(folder_.path(), "retrieval"));
  for (const char* text :
       {"", "[]", "{", R"({"captions": ["a"]})", R"({"captions": [], "cosines": []})",
        R"({"captions": ["a", "b"], "cosines": [[1, 0]]})",
        R"({"captions": ["a"], "cosines": [[1, 0]]})", R"({"captions": ["a"], "cosines": [["x"]]})",
        R"({"captions": "a", "cosines": 3})"})
    EXPECT_FALSE(read(text)) << text;
}

}  // namespace
}  // namespace runner
