#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runner/parent/svg/drawing.h"

namespace runner {

/// A square of `count` rows and columns of colored cells, with the same names for both.
class HeatMap {
 public:
  /// `corner` is the upper left corner of the square, `cell` the size of a cell in pixels. Borrows
  /// `drawing`.
  HeatMap(Drawing& drawing, Point corner, double cell, std::size_t count)
      : drawing_(drawing), corner_(corner), cell_(cell), count_(count) {}

  /// Draws a cell. `strength` is from 0 to 1; a weak cell stays visible. `tip` is the tooltip, and
  /// `text` is written into the cell.
  void cell(std::size_t row, std::size_t column, double strength, std::string_view tip,
            std::string_view text = "") const;
  /// Writes the name of row and column `place`, shortened to 24 characters.
  void name(std::size_t place, std::string_view name) const;
  /// Writes the name of a row to its left, or of a column below it.
  void row_name(std::size_t row, std::string_view name) const;
  void column_name(std::size_t column, std::string_view name) const;

  /// The space, in pixels, that `names` need to the left of the cells and below them.
  static double room_left(std::span<const std::string> names);
  static double room_below(std::span<const std::string> names);

 private:
  Drawing& drawing_;
  const Point corner_;
  const double cell_;
  const std::size_t count_;
};

/// What the colors of a heat map mean.
struct HeatScale {
  static constexpr double kWidth = 100;  ///< width of the scale's drawing, in pixels
  std::string lowest, highest;           ///< the values at its ends
  std::string label;
};

/// Draws a scale from `corner` down, `height` pixels high.
void draw_heat_scale(Drawing& drawing, Point corner, double height, const HeatScale& scale);

}  // namespace runner
