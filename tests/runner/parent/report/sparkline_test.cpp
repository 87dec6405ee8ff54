#include "runner/parent/report/plan_text.h"

#include <vector>

#include <gtest/gtest.h>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

const TextStyle kBlocks{.width = 80, .has_blocks = true};
const TextStyle kPlain{.width = 80, .has_blocks = false};

TEST(Sparkline, HeightsFollowTheValues) {
  const std::vector<std::int64_t> values = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(sparkline(values, kBlocks), " ▂▃▄▅▆▇██");
  EXPECT_EQ(sparkline(values, kPlain), " .-=+*#@@");
}

TEST(Sparkline, SmallValuesAreNotDrawnAsZero) {
  EXPECT_EQ(sparkline(std::vector<std::int64_t>{0, 1, 1000}, kBlocks), " ▁█");
  EXPECT_EQ(sparkline(std::vector<std::int64_t>{0, 1, 1000}, kPlain), " _@");
}

TEST(Sparkline, PeakOfOnePointSurvivesThinning) {
  std::vector<std::int64_t> values(1000, 100);
  values[777] = 800;
  const std::string line = sparkline(values, {.width = 10, .has_blocks = false});
  EXPECT_EQ(line, ".......@..");
}

TEST(Sparkline, IsNeverWiderThanTheTerminal) {
  const std::vector<std::int64_t> values(97, 5);
  for (std::size_t width = 1; width < 120; ++width)
    EXPECT_EQ(columns(sparkline(values, {.width = width, .has_blocks = true})),
              std::min<std::size_t>(width, 97));
}

TEST(Sparkline, IsEmptyWithoutValues) {
  EXPECT_EQ(sparkline({}, kBlocks), "");
  EXPECT_EQ(sparkline(std::vector<std::int64_t>{0, 0}, kBlocks), "  ");
}

TEST(PhaseLine, NamesStartAtTheirPhases) {
  const std::vector<PhaseMark> phases = {{"forward", 0}, {"loss", 20}, {"backward", 30}};
  EXPECT_EQ(phase_line(phases, 60, kPlain), "forward             loss      backward");
  EXPECT_EQ(phase_line(phases, 60, {.width = 30, .has_blocks = false}), "forward   loss backward");
}

TEST(PhaseLine, NameWithoutRoomIsLeftOut) {
  const std::vector<PhaseMark> phases = {
      {"forward", 0}, {"loss", 4}, {"backward", 9}, {"optimizer", 18}};
  EXPECT_EQ(phase_line(phases, 20, kPlain), "    loss backward");
}

TEST(PhaseLine, LongestPhaseKeepsItsName) {
  const std::vector<PhaseMark> phases = {
      {"forward", 0}, {"loss", 20}, {"backward", 22}, {"clip", 50}, {"optimizer", 51}};
  EXPECT_EQ(phase_line(phases, 70, kPlain),
            "forward               backward                     optimizer");
}

TEST(PhaseLine, PhaseOutsideTheCurveIsIgnored) {
  EXPECT_EQ(phase_line(std::vector<PhaseMark>{{"forward", 99}}, 20, kPlain), "");
  EXPECT_EQ(phase_line(std::vector<PhaseMark>{{"forward", 0}}, 0, kPlain), "");
}

}  // namespace
}  // namespace runner
