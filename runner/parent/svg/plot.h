#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/svg/drawing.h"

namespace runner {

/// The ticks of an axis: multiples of 1, 2 or 5 times a power of ten.
struct Ticks {
  double low = 0, high = 1;  ///< the axis: the requested range extended to the outermost ticks
  std::vector<double> values;
  /// One for each value, all with the same number of decimals. If all values are below 0.001, they
  /// are written with the same power of ten: "0.5e-4", "1.0e-4".
  std::vector<std::string> labels;
};

/// Returns at least two and at most `most` ticks (`most` is 3 or more) for the range between `low`
/// and `high`, which must be finite and may be in any order. If they are equal, the axis extends
/// beyond them on both sides.
Ticks nice_ticks(double low, double high, int most);

/// Like nice_ticks(), for whole numbers such as epochs: all ticks are whole numbers.
Ticks whole_ticks(double low, double high, int most);

/// Returns ticks for a logarithmic axis: the values are log10 of "0.1", "1", "10" and, if the range
/// spans only a few powers of ten, also of 2 and 5 times these. `low` and `high` are the logarithms
/// of the data.
Ticks power_ticks(double low, double high, int most);

/// One axis of a plot.
struct Axis {
  std::string label;
  Ticks ticks;
  bool is_logarithmic = false;  ///< the values are log10 of the data
};

/// The rectangle between the axes of a plot; axis labels are outside it.
struct Frame {
  double left = 0, top = 0, width = 0, height = 0;
};

/// The style of a line in a plot. kMarked: with a dot at each point if there are few points. kDash,
/// kDot and kDashDot are thin too, so that lines of the same color differ. kInk has the color of
/// text.
enum class Stroke { kMarked, kPlain, kThin, kDash, kDot, kDashDot, kInk };

/// A plot with two axes, in a drawing, that uses the units of its data. The constructor draws the
/// frame, ticks, grid and titles; later elements cover them. Leaves 70 pixels to the left of the
/// frame for the y axis; if its labels are longer, the frame becomes narrower. Texts that are too
/// long for the drawing are shortened. `drawing` is borrowed and must outlive it.
class Plot {
 public:
  Plot(Drawing& drawing, const Frame& wanted, Axis x, Axis y, std::string_view title);

  /// Returns the position of the data's (x, y) in the drawing. Values beyond the ends of the axes
  /// are clamped.
  Point at(double x, double y) const;

  /// Draws a line through the points in order; a single point is drawn as a dot. Colors are
  /// numbered from 1; the ninth is the same as the first. The name is for pages that show the
  /// line's values.
  void line(std::span<const Point> data, int color, Stroke stroke = Stroke::kMarked,
            std::string_view name = "");
  void dashed(Point from, Point to);
  /// Draws a bar from the lower end of the y axis up to `height`.
  void bar(double left, double right, double height, int color, std::string_view tip);
  /// Draws a vertical interval with a cap at each end.
  void interval(double x, double low, double high);

 private:
  Drawing& drawing_;
  const Frame frame_;
  const Axis x_, y_;
};

/// An entry of a legend: the name of a line in a plot.
struct LegendEntry {
  std::string name;
  int color = 1;
  bool is_dashed = false;  ///< Plot::dashed()
  Stroke stroke = Stroke::kPlain;
};

/// Draws the lines and their names one below the other, starting at `at`.
void draw_legend(Drawing& drawing, Point at, std::span<const LegendEntry> entries);

/// Returns `text` with its middle replaced by "…" if it has more than `max_length` characters.
std::string shortened(std::string_view text, std::size_t max_length);

}  // namespace runner
