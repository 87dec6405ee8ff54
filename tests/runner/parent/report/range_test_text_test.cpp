#include "runner/parent/report/range_test_text.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json found() {
  return Json::parse(R"({"stage": "/train", "learning_rate": 0.001, "batch_size": 8,
    "diverged": true, "suggestion": 0.0316, "points": [
    {"step": 1, "learning_rate": 0.01, "loss": 2, "smoothed_loss": 2},
    {"step": 2, "learning_rate": 0.0316, "loss": 1, "smoothed_loss": 1.5},
    {"step": 3, "learning_rate": 0.1, "loss": 900, "smoothed_loss": 300}]})");
}

TEST(RangeTestText, EndsWithTheOverride) {
  EXPECT_EQ(range_test_text(found(), {}),
            "@_@\n"  // the diverged loss is drawn at the top, and hides nothing
            "step  learning rate      loss  smoothed\n"
            "   1           0.01    2.0000    2.0000\n"
            "   2          0.032    1.0000    1.5000\n"
            "   3            0.1  900.0000  300.0000\n"
            "the loss diverged after step 3, at the learning rate 0.1\n"
            "the loss falls fastest at the learning rate 0.032; the recipe has 0.001\n"
            "train.optimizer.learning_rate=0.032\n");
}

TEST(RangeTestText, ReportsThatTheLossNeverFalls) {
  Json never = found();
  never["suggestion"] = nullptr;
  EXPECT_EQ(suggested_override(never), std::nullopt);
  EXPECT_THAT(range_test_text(never, {}),
              testing::EndsWith("no suggestion: the loss never falls\n"));
}

TEST(RangeTestText, DrawingShowsTheSuggestionDespiteDivergence) {
  const std::string svg = draw_range_test(found(), "flowers").svg();
  EXPECT_THAT(svg, HasSubstr("train.optimizer.learning_rate=0.032"));
  EXPECT_THAT(svg, HasSubstr(">1e-2<"));
  EXPECT_THAT(svg, testing::Not(HasSubstr(">300<")));
}

}  // namespace
}  // namespace runner
