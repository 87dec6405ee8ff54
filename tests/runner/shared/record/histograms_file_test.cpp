#include "runner/shared/record/histograms_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class HistogramsFileTest : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [histogram, time] : read_histograms(path()))
      result.push_back(histogram.node + histogram.name + std::to_string(histogram.step));
    return result;
  }
  std::filesystem::path path() const { return folder_.path() / "histograms.jsonl"; }

  TemporaryFolder folder_;
};

TEST_F(HistogramsFileTest, ReadsBackWhatItWrote) {
  HistogramsFile(path(), disk()).append({"a", "x", {{-1, 0.1, 3}, {0.1, 2, 1}}, 7}, 0.5);
  const auto lines = read_histograms(path());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].histogram.node, "a");
  EXPECT_THAT(lines[0].histogram.buckets,
              ElementsAre(HistogramBucket{-1, 0.1, 3}, HistogramBucket{0.1, 2, 1}));
  EXPECT_EQ(lines[0].histogram.step, 7);
  EXPECT_EQ(lines[0].time, 0.5);
}

TEST_F(HistogramsFileTest, IsNotCreatedWithoutHistograms) {
  HistogramsFile file(path(), disk());
  file.rewind("a", 0);
  file.sync();
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_THAT(read_histograms(path()), IsEmpty());
}

TEST_F(HistogramsFileTest, RewindingDropsLaterStepsOfANode) {
  HistogramsFile file(path(), disk());
  for (const int step : {1, 2, 3}) {
    file.append({"a", "x", {}, step}, 1);
    file.append({"b", "x", {}, step}, 1);
  }
  file.rewind("a", 1);
  file.append({"a", "x", {}, 2}, 2);
  EXPECT_THAT(names(), ElementsAre("ax1", "bx1", "bx2", "bx3", "ax2"));
}

TEST_F(HistogramsFileTest, ContinuingDropsAnIncompleteLine) {
  HistogramsFile(path(), disk()).append({"a", "x", {}, 1}, 1);
  folder_.write("histograms.jsonl", folder_.read("histograms.jsonl") + R"({"node": "a", "na)");
  HistogramsFile(path(), disk()).append({"a", "x", {}, 2}, 1);
  EXPECT_THAT(names(), ElementsAre("ax1", "ax2"));
}

TEST_F(HistogramsFileTest, MalformedLinesAreNotRead) {
  for (const char* line :
       {"", "{}", R"({"node": "a", "name": "x", "buckets": [[1, 2]], "step": 1, "time": 1})",
        R"({"node": "a", "name": "x", "buckets": [[1, 2, "3"]], "step": 1, "time": 1})"})
    EXPECT_FALSE(histogram_line(line)) << line;
}

}  // namespace
}  // namespace runner
