#include "runner/parent/page/curves.h"

#include <cmath>

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

MetricLine at(std::int64_t step, const std::string& name, double value,
              const std::string& node = "train") {
  return {{node, name, value, step}, 0};
}

std::vector<Point> sawtooth(std::size_t count) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < count; ++i)
    points.push_back({static_cast<double>(i), i == count / 3 ? 99.0 : static_cast<double>(i % 7)});
  return points;
}

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++times;
  return times;
}

TEST(Thinned, KeepsShortCurvesUnchanged) { EXPECT_THAT(thinned(sawtooth(10), 10), SizeIs(10)); }

TEST(Thinned, KeepsEndsAndExtremesInOrder) {
  const std::vector<Point> all = sawtooth(100'000), few = thinned(all, 600);
  EXPECT_LE(few.size(), 600u);
  EXPECT_EQ(few.front().x, 0);
  EXPECT_EQ(few.back().x, 99'999);
  EXPECT_TRUE(std::ranges::is_sorted(few, {}, &Point::x));
  EXPECT_EQ(std::ranges::max(few, {}, &Point::y).y, 99);
  EXPECT_EQ(std::ranges::min(few, {}, &Point::y).y, 0);
}

TEST(Curves, HaveOneChartForEachQuantity) {
  const std::vector<MetricLine> lines = {
      at(1, "train/loss", 2),          at(2, "train/loss", 1),
      at(1, "train/learning_rate", 3), at(2, "train/learning_rate", 4),
      at(2, "train/epoch_loss", 1.5),  at(2, "validation/loss", 1.25),
      at(1, "train/accuracy", 0.25),   at(2, "train/accuracy", 0.5),
      at(1, "train/loss", 9, "other"), at(1, "memory/allocated", 5)};
  const std::vector<Drawing> charts = draw_curves("train", "train[x]", lines);
  ASSERT_THAT(charts, SizeIs(3));
  const std::string loss = charts[0].svg();
  EXPECT_THAT(loss, HasSubstr(">loss of train[x]</title>"));
  EXPECT_THAT(loss,
              HasSubstr("training: from 2 to 1; training, mean over the epoch: 1.5; validation: "
                        "1.25</desc>"));
  EXPECT_THAT(loss, Not(HasSubstr("logarithmic")));
  EXPECT_THAT(charts[1].svg(), HasSubstr(">accuracy of "));
  EXPECT_THAT(charts[2].svg(), HasSubstr(">learning rate of "));
  // Values of a single epoch are dots, in the chart and in the legend; steps are thin lines.
  EXPECT_EQ(times_in(loss, "<circle class=\"fill-2\""), 2u);
  EXPECT_EQ(times_in(loss, "<circle class=\"fill-3\""), 2u);
  EXPECT_EQ(times_in(loss, "<polyline class=\"thin color-1\""), 2u);
  for (const char* name : {">training</text>", ">validation</text>"})
    EXPECT_EQ(times_in(loss, name), 1u);
  // A chart of one curve needs no legend.
  EXPECT_EQ(times_in(charts[2].svg(), ">training</text>"), 0u);
}

TEST(Curves, SmallNumbersKeepTheirDigitsInTheDescription) {
  const std::vector<MetricLine> lines = {at(1, "train/learning_rate", 4e-5),
                                         at(2, "train/learning_rate", 1.25e-6)};
  EXPECT_THAT(draw_curves("train", "train", lines).at(0).svg(),
              HasSubstr("training: from 4e-05 to 1.25e-06</desc>"));
}

TEST(Curves, LossOverManyPowersOfTenIsLogarithmic) {
  const std::vector<MetricLine> lines = {at(1, "train/loss", 20), at(2, "train/loss", 0.02)};
  const std::string chart = draw_curves("train", "train", lines).at(0).svg();
  EXPECT_THAT(chart, HasSubstr(">loss (logarithmic)</text>"));
  EXPECT_THAT(chart, HasSubstr(" data-scale=\"70 244 455 44 1 -2 2 2 1\">"))
      << "so that a page can show the values";
  EXPECT_THAT(chart, HasSubstr(" data-name=\"training\" points=\""));
  for (const char* tick : {">0.01<", ">0.1<", ">1<", ">10<", ">100<"})
    EXPECT_THAT(chart, HasSubstr(tick));
}

TEST(Curves, CountNonFiniteValues) {
  const std::vector<MetricLine> lines = {at(1, "train/loss", 2), at(2, "train/loss", NAN),
                                         at(3, "train/loss", INFINITY), at(4, "train/loss", 1)};
  EXPECT_THAT(draw_curves("train", "train", lines).at(0).svg(),
              HasSubstr(">loss, not finite: 2</text>"));
}

TEST(Curves, OneStepMakesNoCurve) {
  const std::vector<MetricLine> lines = {at(1, "train/loss", 2)};
  EXPECT_THAT(draw_curves("train", "train", lines), IsEmpty());
}

TEST(Curves, SkippedStepsHaveNoCurve) {
  const std::vector<MetricLine> lines = {at(1, "train/epoch_skipped_steps", 2),
                                         at(2, "train/epoch_skipped_steps", 1)};
  EXPECT_THAT(draw_curves("train", "train", lines), IsEmpty());
}

TEST(MemoryChart, ShowsThePlannedPeak) {
  std::vector<MetricLine> lines = {at(1, "memory/allocated", 1 << 20),
                                   at(2, "memory/allocated", 2 << 20),
                                   at(2, "memory/peak", 3 << 20)};
  EXPECT_THAT(draw_memory("train", "train", lines).at(0).svg(), Not(HasSubstr("planned")));
  lines.push_back(at(2, "memory/peak_by_plan", 0.75));
  const std::vector<Drawing> charts = draw_memory("train", "train", lines);
  ASSERT_THAT(charts, SizeIs(1));
  EXPECT_THAT(charts[0].svg(), HasSubstr(">planned peak of tensor memory, 4.0 MiB</text>"));
  EXPECT_THAT(charts[0].svg(), HasSubstr(">MiB</text>"));
  EXPECT_THAT(charts[0].svg(),
              HasSubstr("maximum: 3.0 MiB; planned peak of tensor memory, 4.0 MiB</desc>"));
  EXPECT_THAT(draw_memory("other", "other", lines), IsEmpty());
}

TEST(MemoryChart, OneStepMakesNoTimeline) {
  const std::vector<MetricLine> lines = {at(1, "memory/allocated", 1 << 20),
                                         at(1, "memory/peak", 3 << 20)};
  EXPECT_THAT(draw_memory("train", "train", lines), IsEmpty());
}

}  // namespace
}  // namespace runner
