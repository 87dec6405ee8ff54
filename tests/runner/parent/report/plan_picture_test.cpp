#include "runner/parent/report/plan_text.h"

#include <regex>

#include <gmock/gmock.h>

#include "tests/support/memory_plans.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

/// True if every element is closed, in order, and quotes and '<' appear only where XML allows them.
bool is_well_formed(std::string svg) {
  static const std::regex element(R"re(^<(/?)([a-z]+)((?: [a-zA-Z:-]+="[^"<]*")*)(/?)>)re");
  std::vector<std::string> open;
  while (!svg.empty()) {
    const std::size_t at = svg.find('<');
    if (at == svg.npos) break;
    svg.erase(0, at);
    std::smatch match;
    if (!std::regex_search(svg, match, element)) return false;
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return false;
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
    svg = match.suffix();
  }
  return open.empty();
}

TEST(PlanPicture, IsWellFormed) {
  EXPECT_TRUE(is_well_formed(draw_plan(memory_plan(), "classify <&>").svg()));
  MemoryPlan plan = plan_that_does_not_fit();
  plan.phases = {{"<forward>", 0}, {"\"", 9999}};
  EXPECT_TRUE(is_well_formed(draw_plan(plan, "classify").svg()));
  EXPECT_FALSE(is_well_formed("<svg><g></svg>"));
}

TEST(PlanPicture, ShowsTheCurveAndNamesItsPhases) {
  const std::string svg = draw_plan(memory_plan(), "classify").svg();
  EXPECT_THAT(svg, HasSubstr(">Memory plan of classify</title>"));
  EXPECT_THAT(svg, HasSubstr("live bytes over a step of train, at most 1.07 GiB in backward; 1.25 "
                             "GiB are needed of 8.00 GiB"));
  EXPECT_THAT(svg, HasSubstr(">forward</text>"));
  EXPECT_THAT(svg, HasSubstr(">backward</text>"));
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"line color-1\""));
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.04\"><title>forward</title></rect>"));
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.12\"><title>backward</title></rect>"));
}

TEST(PlanPicture, AlsoNamesNarrowPhases) {
  MemoryPlan plan = memory_plan();
  plan.curve.assign(100, 1 << 20);
  plan.phases = {{"forward", 0}, {"loss", 48}, {"backward", 50}, {"clip", 97}, {"optimizer", 99}};
  const std::string svg = draw_plan(plan, "classify").svg();
  for (const char* name : {"forward", "loss", "backward", "clip", "optimizer"})
    EXPECT_THAT(svg, HasSubstr(">" + std::string(name) + "</text>"));
}

TEST(PlanPicture, DrawsANearbyBudget) {
  EXPECT_THAT(draw_plan(plan_that_does_not_fit(), "classify").svg(),
              HasSubstr(">budget, 1.00 GiB</text>"));
  EXPECT_THAT(draw_plan(memory_plan(), "classify").svg(), Not(HasSubstr("class=\"dashed\"")));
}

TEST(PlanPicture, StepWithoutMemoryIsDrawn) {
  MemoryPlan plan = memory_plan();
  plan.curve = {0};
  EXPECT_TRUE(is_well_formed(draw_plan(plan, "classify").svg()));
}

}  // namespace
}  // namespace runner
