#include "runner/parent/svg/drawing.h"

#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

/// Colors that color-blind users can also distinguish (Okabe and Ito, 2008); the second of each
/// pair is lighter, for a dark background.
constexpr std::array<std::array<const char*, 2>, 8> kColors = {{{"#0072b2", "#5cb8f0"},
                                                                {"#d55e00", "#ff9147"},
                                                                {"#009e73", "#3fd4a8"},
                                                                {"#b3568c", "#e79bc6"},
                                                                {"#a87600", "#f0b93a"},
                                                                {"#3a8fc4", "#8fd0fa"},
                                                                {"#6b6b6b", "#b0b0b0"},
                                                                {"#7a5ab5", "#b79cf0"}}};

std::string color_rules(std::size_t theme) {
  std::string rules;
  for (std::size_t i = 0; i < kColors.size(); ++i) {
    const std::string number = std::to_string(i + 1), color = kColors[i][theme];
    rules += "svg .color-" + number + "{stroke:" + color + "}svg .fill-" + number +
             "{fill:" + color + "}\n";
  }
  return rules;
}

std::string coordinates(Point point) { return svg_number(point.x) + "," + svg_number(point.y); }

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + markup_text(value) + "\"";
}

/// Writes the numbers in full precision.
std::string scale_attribute(const Scale& scale) {
  std::string numbers;
  for (const double number : {scale.from.x, scale.from.y, scale.to.x, scale.to.y, scale.lowest.x,
                              scale.lowest.y, scale.highest.x, scale.highest.y}) {
    std::array<char, 32> text;
    numbers.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
    numbers += ' ';
  }
  return attribute("data-scale", numbers + (scale.is_logarithmic ? "1" : "0"));
}

}  // namespace

std::string markup_text(std::string_view text) {
  std::string result;
  for (const char letter : printable(text)) {
    if (letter == '&') result += "&amp;";
    else if (letter == '<') result += "&lt;";
    else if (letter == '>') result += "&gt;";
    else if (letter == '"') result += "&quot;";
    else if (letter == '\t') result += ' ';
    else result += letter;
  }
  // U+FFFE and U+FFFF are valid UTF-8, but not valid in XML.
  for (const std::string_view noncharacter : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at; (at = result.find(noncharacter)) != result.npos;)
      result.replace(at, 3, "?");
  }
  return result;
}

std::string svg_number(double number) {
  assert(std::isfinite(number) && std::abs(number) < 1e15);
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed, 2)
          .ptr;
  std::string result(text.data(), end);
  while (result.ends_with('0')) result.pop_back();
  if (result.ends_with('.')) result.pop_back();
  return result == "-0" ? "0" : result;
}

std::string Drawing::style_sheet() {
  return "svg text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica "
         "Neue',Arial,sans-serif;font-size:12px;fill:#24292f}\n"
         "svg .small{font-size:10px}svg .title{font-size:15px;font-weight:600}"
         "svg .inverse{fill:#ffffff}\n"
         "svg .paper{fill:#ffffff}svg .ink{fill:#24292f}svg .heat{fill:#0072b2}"
         "svg .band{fill:#0072b2;fill-opacity:0.15}\n"
         "svg .line{fill:none;stroke-width:2;stroke-linejoin:round}"
         "svg .thin{fill:none;stroke-width:1}\n"
         "svg .dash{stroke-dasharray:7 3}svg .dot{stroke-dasharray:2 3}"
         "svg .dash-dot{stroke-dasharray:8 3 2 3}\n"
         "svg .dashed{fill:none;stroke:#6e7781;stroke-width:1.2;stroke-dasharray:5 4}\n"
         "svg .grid{stroke:#d8dee4;stroke-width:1}"
         "svg .axis{stroke:#57606a;stroke-width:1;fill:none}\n"
         "svg .mark{stroke:#24292f;stroke-width:1.5}\n" +
         color_rules(0) +
         "@media screen and (prefers-color-scheme: dark){\n"
         "svg text{fill:#e6edf3}svg .inverse{fill:#0d1117}svg .paper{fill:#0d1117}"
         "svg .ink{fill:#e6edf3}svg .heat{fill:#5cb8f0}\n"
         "svg .band{fill:#5cb8f0}svg .dashed{stroke:#8b949e}svg .grid{stroke:#30363d}"
         "svg .axis{stroke:#8b949e}svg .mark{stroke:#e6edf3}\n" +
         color_rules(1) + "}\n";
}

Drawing::Drawing(double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height), title_(title), description_(description) {
  rectangle({0, 0}, width, height, "paper");
}

void Drawing::line(std::span<const Point> points, std::string_view style, std::string_view name) {
  if (points.empty()) return;
  body_ += "<polyline" + attribute("class", style) +
           (name.empty() ? "" : attribute("data-name", name)) + " points=\"";
  for (const Point& point : points)
    body_ += (&point == points.data() ? "" : " ") + coordinates(point);
  body_ += "\"/>\n";
}

void Drawing::line(Point from, Point to, std::string_view style) {
  const std::array ends = {from, to};
  line(ends, style);
}

void Drawing::circle(Point center, double radius, std::string_view style) {
  body_ += "<circle" + attribute("class", style) + " cx=\"" + svg_number(center.x) + "\" cy=\"" +
           svg_number(center.y) + "\" r=\"" + svg_number(radius) + "\"/>\n";
}

void Drawing::rectangle(Point corner, double width, double height, std::string_view style,
                        double opacity, std::string_view tip) {
  body_ += "<rect" + attribute("class", style) + " x=\"" + svg_number(corner.x) + "\" y=\"" +
           svg_number(corner.y) + "\" width=\"" + svg_number(width) + "\" height=\"" +
           svg_number(height) + "\"";
  if (opacity < 1) body_ += " fill-opacity=\"" + svg_number(opacity) + "\"";
  body_ += tip.empty() ? "/>\n" : "><title>" + markup_text(tip) + "</title></rect>\n";
}

void Drawing::text(Point at, std::string_view text, Align align, std::string_view style,
                   double degrees) {
  constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};
  body_ += "<text" + attribute("class", style) + " x=\"" + svg_number(at.x) + "\" y=\"" +
           svg_number(at.y) + "\" text-anchor=\"" +
           std::string(kAnchors[static_cast<std::size_t>(align)]) + "\"";
  if (degrees != 0)
    body_ += " transform=\"rotate(" + svg_number(degrees) + " " + coordinates(at) + ")\"";
  body_ += ">" + markup_text(text) + "</text>\n";
}

double Drawing::small_width(std::string_view text) {
  constexpr double kLetter = 6.3;
  return kLetter * static_cast<double>(columns(printable(text)));
}

std::string Drawing::element(const std::string& title_id, const std::string& description_id,
                             const std::string& head, double tall) const {
  const std::string width = svg_number(width_), height = svg_number(tall);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + width + " " + height +
         "\" width=\"" + width + "\" height=\"" + height + "\" role=\"img\" aria-labelledby=\"" +
         title_id + " " + description_id + "\"" + (scale_ ? scale_attribute(*scale_) : "") +
         ">\n<title id=\"" + title_id + "\">" + markup_text(title_) + "</title>\n<desc id=\"" +
         description_id + "\">" + markup_text(description_) + "</desc>\n" + head + body_ +
         "</svg>\n";
}

std::string Drawing::svg() const {
  const std::string style = "<style>\n" + style_sheet() + "</style>\n";
  if (footer_.empty()) return element("title", "description", style, height_);
  constexpr double kFooter = 24;
  Drawing whole = *this;
  whole.rectangle({0, height_}, width_, kFooter, "paper");
  whole.text({10, height_ + kFooter - 10}, footer_, Align::kStart, "small");
  return whole.element("title", "description", style, height_ + kFooter);
}

std::string Drawing::inlined(std::string_view id) const {
  const std::string prefix = markup_text(id);
  return element(prefix + "-title", prefix + "-description", "", height_);
}

}  // namespace runner
