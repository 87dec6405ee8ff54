#include "runner/parent/page/graph_picture.h"

#include <algorithm>
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

constexpr double kBoxWidth = 170, kBoxHeight = 44, kGapAcross = 46, kGapDown = 18, kMargin = 12;
constexpr double kLane = 9;  // distance between two parallel lines

/// A stage, with all its nodes.
struct Box {
  std::string stage, kind;
  std::size_t nodes = 0;
  std::size_t column = 0;                // length of the longest path from a stage without inputs
  std::set<std::size_t> inputs = {};     // indices of other boxes
  std::vector<std::size_t> routes = {};  // the routes that begin at this box
  double top = 0, height = kBoxHeight;

  double middle() const { return top + height / 2; }
};

/// A line from one box to another. It passes each column in between at its own height, so that it
/// does not cross any box.
struct Route {
  std::size_t from, to;
  std::vector<double> heights;  // the heights at which it leaves, passes each column in between,
                                // and arrives
};

/// Returns the stages, ordered so that inputs come first.
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
  return boxes;
}

/// The positions of boxes and lines.
class Layout {
 public:
  explicit Layout(std::vector<Box> boxes) : boxes_(std::move(boxes)) {
    add_routes();
    place_columns();
    place_ports();
    place_lanes();
  }

  const std::vector<Box>& boxes() const { return boxes_; }
  double width() const { return lefts_.back() + kBoxWidth + kMargin; }
  double height() const { return tallest_ + 2 * kMargin; }
  Point corner(const Box& box) const { return {lefts_[box.column], box.top}; }
  /// The points of each line.
  std::vector<std::vector<Point>> lines() const;

 private:
  /// A box, or a line that passes the column.
  struct Item {
    bool is_box;
    std::size_t index;  // index of a box or of a route
    double near = 0;    // mean height of the items connected to it in the previous column
  };
  /// A line between two columns that does not stay at the same height.
  struct Bend {
    std::size_t route;
    double from, to;
  };

  double height_of(const Item& item) const { return item.is_box ? boxes_[item.index].height : 0; }
  void add_routes();
  void place_columns();
  void place_ports();
  void place_lanes();
  std::vector<Bend> bends_after(std::size_t column) const;

  std::vector<Box> boxes_;
  std::vector<Route> routes_;
  std::vector<double> lefts_;                                    // of each column
  std::map<std::pair<std::size_t, std::size_t>, double> lanes_;  // keyed by the column before the
                                                                 // lane and by route
  double tallest_ = 0;
};

void Layout::add_routes() {
  for (std::size_t to = 0; to < boxes_.size(); ++to) {
    for (const std::size_t from : boxes_[to].inputs) {
      boxes_[from].routes.push_back(routes_.size());
      routes_.push_back(
          {from, to, std::vector<double>(boxes_[to].column - boxes_[from].column + 1)});
    }
  }
  for (Box& box : boxes_) {
    const auto ports = static_cast<double>(std::max(box.inputs.size(), box.routes.size()));
    box.height = std::max(kBoxHeight, kLane * (ports + 1));
  }
}

/// Orders the items of each column by the heights of what is connected to them.
void Layout::place_columns() {
  std::vector<std::vector<Item>> columns;
  const auto add = [&](std::size_t column, Item item) {
    columns.resize(std::max(columns.size(), column + 1));
    columns[column].push_back(item);
  };
  for (std::size_t i = 0; i < boxes_.size(); ++i) add(boxes_[i].column, {true, i});
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const std::size_t first = boxes_[routes_[i].from].column;
    for (std::size_t pass = 1; pass + 1 < routes_[i].heights.size(); ++pass)
      add(first + pass, {false, i});
  }
  const auto needed = [&](const std::vector<Item>& items) {
    double height = kGapDown * static_cast<double>(items.size() - 1);
    for (const Item& item : items) height += height_of(item);
    return height;
  };
  for (const auto& items : columns) tallest_ = std::max(tallest_, needed(items));
  for (std::size_t column = 0; column < columns.size(); ++column) {
    for (Item& item : columns[column]) {
      double sum = 0, count = 0;
      for (std::size_t i = 0; i < routes_.size(); ++i) {
        const Route& route = routes_[i];
        if (item.is_box ? route.to != item.index : i != item.index) continue;
        const std::size_t first = boxes_[route.from].column;
        if (first >= column) continue;
        sum +=
            column == first + 1 ? boxes_[route.from].middle() : route.heights[column - first - 1];
        ++count;
      }
      item.near = count > 0 ? sum / count : 0;
    }
    std::ranges::stable_sort(columns[column], {}, &Item::near);
    double top = kMargin + (tallest_ - needed(columns[column])) / 2;
    for (const Item& item : columns[column]) {
      if (item.is_box) boxes_[item.index].top = top;
      else {
        Route& route = routes_[item.index];
        route.heights[column - boxes_[route.from].column] = top;
      }
      top += height_of(item) + kGapDown;
    }
  }
}

/// Assigns each line its own position on the boxes where it begins and ends.
void Layout::place_ports() {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    std::vector<Route*> leaving, arriving;
    for (Route& route : routes_) {
      if (route.from == i) leaving.push_back(&route);
      if (route.to == i) arriving.push_back(&route);
    }
    const auto next = [&](const Route* route) {
      return route->heights.size() > 2 ? route->heights[1] : boxes_[route->to].middle();
    };
    const auto before = [&](const Route* route) {
      return route->heights.size() > 2 ? route->heights[route->heights.size() - 2]
                                       : boxes_[route->from].middle();
    };
    const auto port = [&](std::size_t place, std::size_t count) {
      return boxes_[i].top +
             boxes_[i].height * static_cast<double>(place + 1) / static_cast<double>(count + 1);
    };
    std::ranges::stable_sort(leaving, {}, next);
    std::ranges::stable_sort(arriving, {}, before);
    for (std::size_t place = 0; place < leaving.size(); ++place)
      leaving[place]->heights.front() = port(place, leaving.size());
    for (std::size_t place = 0; place < arriving.size(); ++place)
      arriving[place]->heights.back() = port(place, arriving.size());
  }
}

/// Returns the bends between a column and the next one from left to right, in an order in which few
/// of them cross.
std::vector<Layout::Bend> Layout::bends_after(std::size_t column) const {
  std::vector<Bend> bends;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const std::size_t first = boxes_[routes_[i].from].column;
    if (column < first || column >= boxes_[routes_[i].to].column) continue;
    const double from = routes_[i].heights[column - first],
                 to = routes_[i].heights[column - first + 1];
    if (from != to) bends.push_back({i, from, to});
  }
  std::ranges::stable_sort(bends, {}, [](const Bend& bend) {
    const bool is_up = bend.to < bend.from;
    return std::pair(is_up, is_up ? bend.from : -bend.from);
  });
  return bends;
}

/// Assigns each bend its own position between the columns.
void Layout::place_lanes() {
  std::size_t columns = 0;
  for (const Box& box : boxes_) columns = std::max(columns, box.column + 1);
  lefts_ = {kMargin};
  for (std::size_t column = 0; column + 1 < columns; ++column) {
    const std::vector<Bend> bends = bends_after(column);
    const double gaps = static_cast<double>(bends.size() + 1);
    const double gap = std::max(kGapAcross, kLane * gaps), right = lefts_.back() + kBoxWidth;
    for (std::size_t i = 0; i < bends.size(); ++i)
      lanes_[{column, bends[i].route}] = right + gap * static_cast<double>(i + 1) / gaps;
    lefts_.push_back(right + gap);
  }
}

std::vector<std::vector<Point>> Layout::lines() const {
  std::vector<std::vector<Point>> lines;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const Route& route = routes_[i];
    const std::size_t first = boxes_[route.from].column;
    std::vector<Point> line = {{lefts_[first] + kBoxWidth, route.heights.front()}};
    for (std::size_t at = 0; at + 1 < route.heights.size(); ++at) {
      const auto lane = lanes_.find({first + at, i});
      if (lane == lanes_.end()) continue;
      line.push_back({lane->second, route.heights[at]});
      line.push_back({lane->second, route.heights[at + 1]});
    }
    line.push_back({lefts_[boxes_[route.to].column], route.heights.back()});
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

Drawing draw_stages(const Graph& graph) {
  assert(!graph.nodes.empty());
  const Layout layout(boxes_of(graph));
  std::vector<std::string> names;
  for (const Box& box : layout.boxes()) names.push_back(box.stage);
  Drawing drawing(layout.width(), layout.height(), "Stages of " + graph.recipe, join(names, ", "));
  for (const std::vector<Point>& line : layout.lines()) {
    drawing.line(line, "axis");
    drawing.circle(line.back(), 3, "ink");
  }
  for (const Box& box : layout.boxes()) {
    const Point corner = layout.corner(box);
    const double middle = corner.x + kBoxWidth / 2, text = box.middle();
    drawing.rectangle(corner, kBoxWidth, box.height, "paper");
    drawing.rectangle(corner, kBoxWidth, box.height, "band", 1, box.kind);
    const std::string times = box.nodes > 1 ? " × " + std::to_string(box.nodes) : "";
    drawing.text({middle, text - 3}, shortened(box.stage, 20) + times, Align::kMiddle, "text");
    drawing.text({middle, text + 13}, shortened(box.kind, 26), Align::kMiddle, "small");
  }
  return drawing;
}

}  // namespace runner
