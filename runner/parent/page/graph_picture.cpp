#include "runner/parent/page/graph_picture.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/parent/svg/plot.h"
#include "runner/shared/text/join.h"

namespace runner {
namespace {

constexpr double kBoxWidth = 170, kBoxHeight = 44, kGapAcross = 46, kGapDown = 22, kMargin = 12;

/// A stage, with all its nodes.
struct Box {
  std::string stage, kind;
  std::size_t nodes = 0;
  std::size_t column = 0;  // length of the longest path from a stage without inputs
  std::size_t row = 0;
  std::set<std::size_t> inputs = {};  // indices of other boxes

  Point corner() const {
    return {kMargin + static_cast<double>(column) * (kBoxWidth + kGapAcross),
            kMargin + static_cast<double>(row) * (kBoxHeight + kGapDown)};
  }
};

/// Returns the stages with their positions, ordered so that inputs come first.
std::vector<Box> boxes_of(const Graph& graph) {
  std::vector<Box> boxes;
  std::map<std::string, std::size_t> by_stage;
  for (const Node& node : graph.nodes) {
    const auto [found, is_new] = by_stage.emplace(node.stage, boxes.size());
    if (is_new) boxes.push_back({node.stage, node.kind});
    Box& box = boxes[found->second];
    ++box.nodes;
    for (const Edge& edge : node.inputs) {
      const std::size_t from = by_stage.at(graph.nodes[edge.from].stage);
      if (from == found->second) continue;
      box.inputs.insert(from);
      box.column = std::max(box.column, boxes[from].column + 1);
    }
  }
  std::map<std::size_t, std::size_t> rows;
  for (Box& box : boxes) box.row = rows[box.column]++;
  return boxes;
}

}  // namespace

Drawing draw_stages(const Graph& graph) {
  assert(!graph.nodes.empty());
  const std::vector<Box> boxes = boxes_of(graph);
  double width = 0, height = 0;
  std::vector<std::string> names;
  for (const Box& box : boxes) {
    width = std::max(width, box.corner().x + kBoxWidth + kMargin);
    height = std::max(height, box.corner().y + kBoxHeight + kMargin);
    names.push_back(box.stage);
  }
  Drawing drawing(width, height, "Stages of " + graph.recipe, join(names, ", "));
  for (const Box& box : boxes) {
    for (const std::size_t input : box.inputs) {
      const Point from = boxes[input].corner(), to = box.corner();
      const std::array<Point, 4> line = {{{from.x + kBoxWidth, from.y + kBoxHeight / 2},
                                          {to.x - kGapAcross / 2, from.y + kBoxHeight / 2},
                                          {to.x - kGapAcross / 2, to.y + kBoxHeight / 2},
                                          {to.x, to.y + kBoxHeight / 2}}};
      drawing.line(line, "axis");
      drawing.circle({to.x, to.y + kBoxHeight / 2}, 3, "ink");
    }
  }
  for (const Box& box : boxes) {
    const Point corner = box.corner();
    const double middle = corner.x + kBoxWidth / 2;
    drawing.rectangle(corner, kBoxWidth, kBoxHeight, "paper");
    drawing.rectangle(corner, kBoxWidth, kBoxHeight, "band", 1, box.kind);
    const std::string times = box.nodes > 1 ? " × " + std::to_string(box.nodes) : "";
    drawing.text({middle, corner.y + 19}, shortened(box.stage, 20) + times, Align::kMiddle, "text");
    drawing.text({middle, corner.y + 35}, shortened(box.kind, 30), Align::kMiddle, "small");
  }
  return drawing;
}

}  // namespace runner
