#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/parent/svg/drawing.h"

namespace runner {

/// The marks of an axis: multiples of 1, 2 or 5 times a power of ten.
struct Ticks {
  double low = 0, high = 1;  ///< the axis: the range asked for, widened to the outermost marks
  std::vector<double> values;
  std::vector<std::string> labels;  ///< by value, all with equally many decimals
};

/// Marks for what lies between `low` and `high`, which are finite and in any order: at least two,
/// at most `most` (from 3). Where they are equal, the axis reaches to both sides.
Ticks nice_ticks(double low, double high, int most);

/// The same for whole numbers, such as epochs: no mark lies between two of them.
Ticks whole_ticks(double low, double high, int most);

/// One axis of a plot.
struct Axis {
  std::string label;
  Ticks ticks;
};

/// The rectangle between the axes of a plot; their labels stand outside.
struct Frame {
  double left = 0, top = 0, width = 0, height = 0;
};

/// How a line of a plot looks.
enum class Stroke {
  kMarked,
  kPlain,
  kThin
};  ///< kMarked: with a dot at each point, where they are few

/// A plane with two axes in a drawing, in the units of its data. It draws frame, marks, grid and
/// titles when it is made; what comes later lies over them. `drawing` is borrowed and must outlive
/// it.
class Plot {
 public:
  Plot(Drawing& drawing, const Frame& frame, Axis x, Axis y, std::string_view title);

  /// Where in the drawing the data's (x, y) is. What lies beyond the axes is moved to their end.
  Point at(double x, double y) const;

  /// Through the points in order, in colour `color` (from 1; the ninth is the first again).
  void line(std::span<const Point> data, int color, Stroke stroke = Stroke::kMarked);
  void dashed(Point from, Point to);
  /// A bar that stands on the lower end of the y axis.
  void bar(double left, double right, double height, int color, std::string_view tip);
  /// An upright interval with a cap at each end.
  void interval(double x, double low, double high);

 private:
  Drawing& drawing_;
  const Frame frame_;
  const Axis x_, y_;
};

/// What a line of a plot is called.
struct LegendEntry {
  std::string name;
  int color = 1;
  bool is_dashed = false;
};

/// Lines below each other, with their names, from `at` down.
void draw_legend(Drawing& drawing, Point at, std::span<const LegendEntry> entries);

/// `text` with at most `most` characters: the end of a longer one is "…".
std::string shortened(std::string_view text, std::size_t most);

}  // namespace runner
