#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace runner {

/// A point in a drawing, in pixels from its left and top edges.
struct Point {
  double x = 0, y = 0;
};

/// The data values at two opposite corners of a plot.
struct Scale {
  Point from, to;               ///< the corners with the lowest and with the highest values
  Point lowest, highest;        ///< the data there
  bool is_logarithmic = false;  ///< y is the log10 of the data
};

enum class Align { kStart, kMiddle, kEnd };

/// An SVG drawing; later elements cover earlier ones. Output is deterministic: the same calls write
/// the same bytes. It is self-contained, without external fonts, scripts or files, and is dark if
/// the viewer uses a dark theme. It can be a standalone file or be embedded in an HTML page.
///
///   Drawing picture(300, 200, "Loss", "Loss of 3 epochs: 2.1, 1.4, 0.9");
///   picture.line(points, "line color-1");
///   picture.text({150, 20}, "Loss", Align::kMiddle, "title");
///
/// Styles are the names in the style sheet: "line", "thin", "dashed", "grid", "axis", "mark",
/// "small", "title", "inverse", "dash", "dot", "dash-dot", "color-1" … "color-8" for lines,
/// "fill-1" … "fill-8" for areas, "heat" for cells, "band", "paper", "ink".
class Drawing {
 public:
  /// `title` and `description` are for screen readers.
  Drawing(double width, double height, std::string_view title, std::string_view description);

  /// Draws a line through the points in order. A line with a name is a curve with values that a
  /// page can show (scale()).
  void line(std::span<const Point> points, std::string_view style, std::string_view name = "");
  void line(Point from, Point to, std::string_view style);
  void circle(Point center, double radius, std::string_view style);
  /// `opacity` is from 0 to 1; `tip` is the tooltip and may be empty.
  void rectangle(Point corner, double width, double height, std::string_view style,
                 double opacity = 1, std::string_view tip = "");
  /// `degrees` is the clockwise rotation around `at`.
  void text(Point at, std::string_view text, Align align, std::string_view style,
            double degrees = 0);

  /// Sets a line of text, such as the name of a run, that a standalone file shows below the
  /// drawing. A page shows it elsewhere.
  void footer(std::string_view text) { footer_ = text; }

  /// Records what range of data the drawing shows between two points, for use by a page's script.
  void scale(const Scale& scale) { scale_ = scale; }

  /// Returns the whole document.
  std::string svg() const;
  /// Returns an element for an HTML page, which must contain style_sheet() once. `id` must be
  /// unique in the page.
  std::string inlined(std::string_view id) const;
  /// Returns the rules for the styles, limited to SVG elements.
  static std::string style_sheet();

  double width() const { return width_; }  ///< in pixels

  /// Returns an upper estimate of the width of small text, in pixels. The font depends on the
  /// viewer.
  static double small_width(std::string_view text);

 private:
  std::string element(const std::string& title_id, const std::string& description_id,
                      const std::string& head, double height) const;

  double width_, height_;
  std::optional<Scale> scale_;
  std::string title_, description_, body_, footer_;
};

/// Returns `text` escaped for SVG and HTML, in text or in an attribute with double quotes;
/// characters that XML does not allow become '?'.
std::string markup_text(std::string_view text);

/// Returns `number` with at most two decimals and no trailing zeros: "12.5".
std::string svg_number(double number);

}  // namespace runner
