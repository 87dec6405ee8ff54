#include "runner/parent/svg/drawing.h"

#include <regex>

#include <gmock/gmock.h>

#include "runner/parent/svg/plot.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Drawing, HasATitleAndADescription) {
  const std::string svg = Drawing(30, 20, "Loss of <a>", "From 2 & down").svg();
  EXPECT_THAT(
      svg, HasSubstr(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 30 20\" "
               "width=\"30\" height=\"20\" role=\"img\" aria-labelledby=\"title description\">\n"));
  EXPECT_THAT(svg, HasSubstr("<title id=\"title\">Loss of &lt;a&gt;</title>\n"));
  EXPECT_THAT(svg, HasSubstr("<desc id=\"description\">From 2 &amp; down</desc>\n"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Drawing, FollowsTheDarkModeOfTheViewer) {
  const std::string svg = Drawing(30, 20, "a", "b").svg();
  EXPECT_THAT(svg, HasSubstr("@media screen and (prefers-color-scheme: dark){\n"));
  EXPECT_THAT(svg,
              HasSubstr("<rect class=\"paper\" x=\"0\" y=\"0\" width=\"30\" height=\"20\"/>\n"));
}

TEST(Drawing, TextIsEscaped) {
  EXPECT_EQ(markup_text("</text><script>\"a\" & b</script>"),
            "&lt;/text&gt;&lt;script&gt;&quot;a&quot; &amp; b&lt;/script&gt;");
  EXPECT_EQ(markup_text("rose\nred\x1b[1m\tx"), "rose red [1m x");
  EXPECT_EQ(markup_text("d\xE9j\xE0 \xEF\xBF\xBF"), "d?j? ?");
  EXPECT_EQ(markup_text("Gänseblümchen"), "Gänseblümchen");
}

TEST(Drawing, NumbersAreShort) {
  EXPECT_EQ(svg_number(12.5), "12.5");
  EXPECT_EQ(svg_number(1.0 / 3), "0.33");
  EXPECT_EQ(svg_number(-0.001), "0");
  EXPECT_EQ(svg_number(100), "100");
}

TEST(Drawing, SameCallsGiveTheSameBytes) {
  const auto draw = [] {
    Drawing drawing(200, 100, "a", "b");
    drawing.line(Point{1, 2}, Point{3, 4}, "axis");
    drawing.circle({5, 6}, 3, "fill-1");
    drawing.rectangle({1, 1}, 8, 9, "heat", 0.25, "a tip");
    drawing.text({7, 8}, "x", Align::kEnd, "small", -45);
    return drawing.svg();
  };
  const std::string svg = draw();
  EXPECT_EQ(svg, draw());
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"axis\" points=\"1,2 3,4\"/>\n"
                             "<circle class=\"fill-1\" cx=\"5\" cy=\"6\" r=\"3\"/>\n"
                             "<rect class=\"heat\" x=\"1\" y=\"1\" width=\"8\" height=\"9\" "
                             "fill-opacity=\"0.25\"><title>a tip</title></rect>\n"
                             "<text class=\"small\" x=\"7\" y=\"8\" text-anchor=\"end\" "
                             "transform=\"rotate(-45 7,8)\">x</text>\n"));
}

class PlotTest : public testing::Test {
 protected:
  Drawing drawing_{300, 200, "a", "b"};
  Plot plot_{drawing_,
             {50, 40, 200, 100},
             {"epoch", whole_ticks(0, 4, 6)},
             {"loss", nice_ticks(0, 1, 3)},
             "Loss"};
};

TEST_F(PlotTest, PlacesDataBetweenItsAxes) {
  EXPECT_EQ(plot_.at(0, 0).x, 50);
  EXPECT_EQ(plot_.at(0, 0).y, 140);
  EXPECT_EQ(plot_.at(4, 1).x, 250);
  EXPECT_EQ(plot_.at(4, 1).y, 40);
  EXPECT_EQ(plot_.at(1, 0.5).x, 100);
}

TEST_F(PlotTest, PointsBeyondAnAxisAreDrawnAtItsEnd) {
  EXPECT_EQ(plot_.at(9, -3).x, 250);
  EXPECT_EQ(plot_.at(9, -3).y, 140);
}

TEST_F(PlotTest, LabelsItsAxesAndMarks) {
  for (const char* text : {">epoch</text>", ">loss</text>", ">Loss</text>", ">0</text>",
                           ">4</text>", ">0.5</text>", ">1.0</text>"}) {
    EXPECT_THAT(drawing_.svg(), HasSubstr(text));
  }
}

TEST_F(PlotTest, FewPointsAreMarkedAndManyAreNot) {
  const std::vector<Point> few = {{0, 0}, {1, 1}}, many(30, Point{1, 1});
  plot_.line(few, 2);
  EXPECT_THAT(drawing_.svg(), HasSubstr("<circle class=\"fill-2\" cx=\"50\" cy=\"140\" r=\"3\"/>"));
  Drawing other(300, 200, "a", "b");
  Plot(other, {50, 40, 200, 100}, {"x", nice_ticks(0, 1, 3)}, {"y", nice_ticks(0, 1, 3)}, "")
      .line(many, 1);
  EXPECT_THAT(other.svg(), Not(HasSubstr("<circle")));
}

/// The x position of the y axis's rotated name, and its text.
std::pair<double, std::string> axis_name(const std::string& svg) {
  static const std::regex name(R"re(<text [^>]*x="([0-9.]+)"[^>]*rotate\(-90[^>]*>([^<]*)<)re");
  std::smatch match;
  return std::regex_search(svg, match, name) ? std::pair(std::stod(match[1]), match[2].str())
                                             : std::pair(-1.0, std::string());
}

std::string plot_with(const std::vector<std::string>& labels, const std::string& name = "loss") {
  Ticks ticks;
  for (std::size_t i = 0; i < labels.size(); ++i)
    ticks.values.push_back(static_cast<double>(i) / static_cast<double>(labels.size()));
  ticks.labels = labels;
  Drawing drawing(300, 200, "a", "b");
  Plot(drawing, {70, 40, 200, 100}, {"x", nice_ticks(0, 1, 3)}, {name, ticks}, "Title");
  return drawing.svg();
}

TEST(Plot, AxisNameIsNextToTheLongestLabel) {
  EXPECT_EQ(axis_name(plot_with({"0", "1"})).first, 70 - 46);
  const std::string svg = plot_with({"0", "0.123456"});
  // The frame is narrower, so that the name stays in the drawing.
  static const std::regex label(R"re(<text class="small" x="([0-9.]+)"[^>]*>0.123456<)re");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(svg, match, label));
  const double end = std::stod(match[1]);
  EXPECT_LT(axis_name(svg).first, end - Drawing::small_width("0.123456"));
  EXPECT_GE(axis_name(svg).first, 12);
}

TEST(Plot, AxisNameFitsTheDrawing) {
  const std::string name(60, 'm');
  EXPECT_LT(columns(axis_name(plot_with({"0", "1"}, name)).second), 30u);
}

TEST(Plot, SinglePointIsADot) {
  for (const Stroke stroke : {Stroke::kMarked, Stroke::kPlain, Stroke::kThin}) {
    Drawing drawing(300, 200, "a", "b");
    const std::vector<Point> one = {{0.5, 0.5}};
    Plot(drawing, {50, 40, 200, 100}, {"x", nice_ticks(0, 1, 3)}, {"y", nice_ticks(0, 1, 3)}, "")
        .line(one, 1, stroke);
    EXPECT_THAT(drawing.svg(), HasSubstr("<circle class=\"fill-1\""));
  }
}

TEST(Legend, LinesLookLikeThoseInThePlot) {
  Drawing drawing(300, 200, "a", "b");
  const std::vector<LegendEntry> entries = {{"one", 1, false, Stroke::kThin},
                                            {"two", 2, false, Stroke::kMarked},
                                            {"three", 3, true},
                                            {"four", 4, false, Stroke::kDash}};
  draw_legend(drawing, {0, 10}, entries);
  const std::string svg = drawing.svg();
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"thin color-1\" points=\"0,10 22,10\"/>"));
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"line color-2\" points=\"0,27 22,27\"/>\n"
                             "<circle class=\"fill-2\" cx=\"11\" cy=\"27\" r=\"3\"/>"));
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"dashed\" points=\"0,44 22,44\"/>"));
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"thin dash color-4\" points=\"0,61 22,61\"/>"));
}

TEST(Drawing, FooterAppearsInFilesButNotInPages) {
  Drawing drawing(30, 20, "a", "b");
  drawing.footer("<run>");
  const std::string svg = drawing.svg();
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 30 44\""));
  EXPECT_THAT(svg, HasSubstr(">&lt;run&gt;</text>"));
  EXPECT_THAT(drawing.inlined("id"), HasSubstr("viewBox=\"0 0 30 20\""));
  EXPECT_THAT(drawing.inlined("id"), Not(HasSubstr("run")));
}

TEST(Plot, LongNamesEndInAnEllipsis) {
  EXPECT_EQ(shortened("rose", 4), "rose");
  EXPECT_EQ(shortened("Gänseblümchen", 6), "Gän…en");
  EXPECT_EQ(shortened("train.optimizer.learning_rate", 14), "train.o…g_rate");
}

}  // namespace
}  // namespace runner
