#include "runner/parent/page/parallel_coordinates.h"

#include <cmath>

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

SweepResults sweep(const std::vector<std::pair<std::string, double>>& trials) {
  SweepResults results;
  results.keys = {"train.lr"};
  results.objective = Objective{"validation/loss", true};
  for (const auto& [rate, loss] : trials)
    results.trials.push_back({{}, {{"train.lr", rate}}, {{"validation/loss", loss}}});
  return results;
}

std::size_t occurrences_in(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++times;
  return times;
}

TEST(ParallelCoordinates, ShowTheBestQuarterInColor) {
  const auto drawings =
      draw_parallel_coordinates(sweep({{"0.1", 4}, {"0.2", 3}, {"0.3", 1}, {"0.4", 2}}));
  ASSERT_THAT(drawings, SizeIs(1));
  const std::string svg = drawings[0].svg();
  EXPECT_EQ(occurrences_in(svg, "<polyline class=\"thin color-7\""), 3u);
  // The best trial, which has the lowest loss, and the line in the legend are highlighted.
  EXPECT_EQ(occurrences_in(svg, "<polyline class=\"line color-2\""), 2u);
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"line color-2\" points=\"80,133.33 230,280\"/>"));
  EXPECT_THAT(svg, HasSubstr(">0.3</text>"));
}

TEST(ParallelCoordinates, WideRangeIsLogarithmic) {
  const std::string svg =
      draw_parallel_coordinates(sweep({{"0.001", 1}, {"0.01", 2}, {"0.1", 3}})).at(0).svg();
  EXPECT_THAT(svg, HasSubstr("points=\"80,170 230,170\""));  // the middle trial
}

TEST(ParallelCoordinates, WordsAreSpreadEvenly) {
  const std::string svg =
      draw_parallel_coordinates(sweep({{"sgd", 1}, {"adamw", 2}, {"lion", 3}})).at(0).svg();
  EXPECT_THAT(svg, HasSubstr("points=\"80,170 230,170\""));
  EXPECT_THAT(svg, HasSubstr(">adamw</text>"));
}

TEST(ParallelCoordinates, LowestAndHighestValuesAreLabeled) {
  // The labels of 0.98 and 0.99 would overlap that of 1.
  const std::string svg =
      draw_parallel_coordinates(sweep({{"0.5", 0.1}, {"0.98", 0.2}, {"0.99", 0.3}, {"1", 0.4}}))
          .at(0)
          .svg();
  EXPECT_THAT(svg, HasSubstr(">0.5</text>"));
  EXPECT_THAT(svg, HasSubstr(">1</text>"));
  EXPECT_EQ(occurrences_in(svg, ">0.98</text>") + occurrences_in(svg, ">0.99</text>"), 0u);
}

TEST(ParallelCoordinates, LabelsBetweenAxesHideTheLines) {
  SweepResults results = sweep({{"0.1", 4}, {"0.2", 3}});
  results.keys = {"train.lr", "train.optimizer.momentum_of_it"};
  results.trials[0].settings["train.optimizer.momentum_of_it"] = "0.8";
  results.trials[1].settings["train.optimizer.momentum_of_it"] = "0.9";
  const std::string svg = draw_parallel_coordinates(results).at(0).svg();
  EXPECT_EQ(occurrences_in(svg, "<rect class=\"paper\""), 3u) << "the drawing, and two labels";
  EXPECT_THAT(svg, HasSubstr(">train.optim…ntum_of_it</text>")) << "a long key keeps its end";
}

TEST(ParallelCoordinates, NeedTwoTrialsWithAValue) {
  EXPECT_THAT(draw_parallel_coordinates(sweep({{"0.1", 4}})), IsEmpty());
  EXPECT_THAT(draw_parallel_coordinates(sweep({{"0.1", 4}, {"0.2", NAN}})), IsEmpty());
  SweepResults nothing = sweep({{"0.1", 4}, {"0.2", 3}});
  nothing.objective.reset();
  EXPECT_THAT(draw_parallel_coordinates(nothing), IsEmpty());
}

}  // namespace
}  // namespace runner
