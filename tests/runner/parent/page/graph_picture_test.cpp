#include "runner/parent/page/graph_picture.h"

#include <regex>
#include <set>

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::HasSubstr;

Node node(const std::string& id, const std::string& stage, std::vector<std::size_t> inputs) {
  Node result;
  result.id = id;
  result.stage = stage;
  result.kind = stage + ".kind";
  for (const std::size_t from : inputs) {
    Edge edge;
    edge.from = from;
    result.inputs.push_back(edge);
  }
  return result;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++times;
  return times;
}

TEST(StagesPicture, HasABoxForEachStageAndALineForEachInput) {
  Graph graph;
  graph.recipe = "<r>";
  graph.nodes = {node("data", "data", {}), node("train.0", "train", {0}),
                 node("train.1", "train", {0}), node("evaluate", "evaluate", {0, 1, 2})};
  const std::string svg = draw_stages(graph).svg();
  EXPECT_THAT(svg, HasSubstr(">Stages of &lt;r&gt;</title>"));
  EXPECT_EQ(count(svg, "class=\"band\""), 3u);
  EXPECT_EQ(count(svg, "<polyline class=\"axis\""), 3u);
  EXPECT_THAT(svg, HasSubstr(">train × 2</text>"));
}

struct ShownRectangle {
  double x, y, width, height;
};

/// The boxes of a picture.
std::vector<ShownRectangle> boxes_in(const std::string& svg) {
  static const std::regex box(
      R"re(class="band" x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="([0-9.]+)")re");
  std::vector<ShownRectangle> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at)
    boxes.push_back(
        {std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3]), std::stod((*at)[4])});
  return boxes;
}

/// The points of each line in a picture.
std::vector<std::vector<Point>> lines_in(const std::string& svg) {
  static const std::regex line(R"re(<polyline class="axis" points="([^"]*)")re"),
      corner(R"re(([0-9.]+),([0-9.]+))re");
  std::vector<std::vector<Point>> lines;
  for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at) {
    const std::string points = (*at)[1];
    lines.emplace_back();
    for (std::sregex_iterator one(points.begin(), points.end(), corner); one != end; ++one)
      lines.back().push_back({std::stod((*one)[1]), std::stod((*one)[2])});
  }
  return lines;
}

/// Expects that no line is inside a box, that all are horizontal or vertical, and that no two share
/// a vertical part.
void expect_clear_lines(const Graph& graph) {
  const std::string svg = draw_stages(graph).svg();
  const auto boxes = boxes_in(svg);
  std::set<double> verticals;
  for (const auto& line : lines_in(svg)) {
    for (std::size_t i = 1; i < line.size(); ++i) {
      const auto [left, right] = std::minmax(line[i - 1].x, line[i].x);
      const auto [top, bottom] = std::minmax(line[i - 1].y, line[i].y);
      EXPECT_TRUE(left == right || top == bottom) << svg;
      if (left == right) EXPECT_TRUE(verticals.insert(left).second) << left << "\n" << svg;
      for (const ShownRectangle& box : boxes)
        EXPECT_FALSE(left < box.x + box.width && right > box.x && top < box.y + box.height &&
                     bottom > box.y)
            << box.x << "," << box.y << "\n"
            << svg;
    }
  }
}

TEST(StagesPicture, LinesGoAroundBoxes) {
  Graph graph;
  graph.nodes = {node("data", "data", {}), node("model", "model", {}), node("memory", "memory", {}),
                 node("train", "train", {0, 1, 2}), node("evaluate", "evaluate", {0, 2, 3})};
  expect_clear_lines(graph);
  EXPECT_THAT(lines_in(draw_stages(graph).svg()), testing::SizeIs(6));
}

TEST(StagesPicture, LinesOfManyStagesGoAroundBoxes) {
  for (std::size_t seed = 1; seed <= 20; ++seed) {
    Graph graph;
    std::size_t random = seed;
    for (std::size_t i = 0; i < 9; ++i) {
      std::vector<std::size_t> inputs;
      for (std::size_t from = 0; from < i; ++from) {
        random = random * 1664525 % 1013904223 + 12345;
        if (random % 3 == 0) inputs.push_back(from);
      }
      const std::string name = "stage" + std::to_string(i);
      graph.nodes.push_back(node(name, name, inputs));
    }
    expect_clear_lines(graph);
  }
}

}  // namespace
}  // namespace runner
