#pragma once

#include <string>
#include <variant>
#include <vector>

#include "runner/parent/svg/drawing.h"

namespace runner {

/// A heading; level 2 starts a section, level 3 a part of a section.
struct Heading {
  int level = 2;
  std::string text;
};

/// A paragraph of plain text.
struct Paragraph {
  std::string text;
};

/// A table; the first row is the heading, and all rows have the same number of cells. A table with
/// only a heading is left out.
struct Table {
  std::string caption;  ///< for screen readers, and the label of a folded table
  std::vector<std::vector<std::string>> rows;
  bool is_folded = false;  ///< hidden until the reader opens it
};

/// Text with its own line breaks, such as YAML.
struct CodeBlock {
  std::string caption;
  std::string text;
  bool is_folded = false;
};

/// A chart.
struct Figure {
  Drawing drawing;
};

/// An image from a file, with what is known about it.
struct Photo {
  std::string jpeg;  ///< the bytes of a JPEG file
  std::string alternative;
  std::vector<std::string> lines;
};

/// A grid of images.
struct Gallery {
  std::vector<Photo> photos;
};

using Block = std::variant<Heading, Paragraph, Table, CodeBlock, Figure, Gallery>;

/// A report, independent of its format. All texts are plain text: the formats escape them.
struct Document {
  std::string title;
  std::vector<Block> blocks;

  void section(std::string text) { blocks.push_back(Heading{2, std::move(text)}); }
  void part(std::string text) { blocks.push_back(Heading{3, std::move(text)}); }
  void say(std::string text) { blocks.push_back(Paragraph{std::move(text)}); }
  void add(Block block) { blocks.push_back(std::move(block)); }
};

/// Returns the document as one HTML file without references to other files. It is readable without
/// JavaScript, in light and dark, on narrow screens and on paper.
std::string html_page(const Document& document);

/// Returns the document as GitHub's Markdown, without charts and images.
std::string markdown(const Document& document);

}  // namespace runner
