#include "runner/parent/page/graph_picture.h"

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

}  // namespace
}  // namespace runner
