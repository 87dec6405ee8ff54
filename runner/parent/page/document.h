#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runner/parent/svg/drawing.h"

namespace runner {

/// A heading; level 2 starts a section, level 3 a subsection.
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
  std::string caption;  ///< for screen readers; also the label of a folded table
  std::vector<std::vector<std::string>> rows;
  bool is_folded = false;  ///< hidden until the reader opens it
  /// Addresses that cells link to, by row and column.
  std::map<std::pair<std::size_t, std::size_t>, std::string> links = {};
};

/// A line of links, such as those to the pages of a list.
struct Links {
  std::string label;                                       ///< for screen readers
  std::vector<std::pair<std::string, std::string>> links;  ///< text and address; empty: this page
};

/// A form that requests another page from the server; left out in Markdown.
struct Form {
  struct Field {
    std::string name, label, value;  ///< without a label, the field is hidden
    /// Value and text of each choice; empty: any text may be entered.
    std::vector<std::pair<std::string, std::string>> choices = {};
  };
  std::string address;
  std::vector<Field> fields;
  std::string button;
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

/// An image from a file, with information about it.
struct Photo {
  std::string jpeg;  ///< the bytes of a JPEG file
  std::string alternative;
  std::vector<std::string> lines;
};

/// A grid of images.
struct Gallery {
  std::vector<Photo> photos;
};

using Block = std::variant<Heading, Paragraph, Table, Links, Form, CodeBlock, Figure, Gallery>;

/// A report, independent of its format. All texts are plain text; each format escapes them as
/// needed.
struct Document {
  std::string title;
  std::vector<Block> blocks;

  void section(std::string text) { blocks.push_back(Heading{2, std::move(text)}); }
  void part(std::string text) { blocks.push_back(Heading{3, std::move(text)}); }
  void say(std::string text) { blocks.push_back(Paragraph{std::move(text)}); }
  void add(Block block) { blocks.push_back(std::move(block)); }
};

/// The additional content of a page sent by a server.
struct Served {
  std::string progress = {};  ///< a line about a run in progress
  std::string events = {};    ///< the address of the page's events; empty: it does not change
};

/// Returns the document as one HTML file without references to other files. It is readable without
/// JavaScript, in light and dark mode, on narrow screens and on paper.
std::string html_page(const Document& document);

/// Returns the document as a page that a server sends with page_policy().
std::string html_page(const Document& document, const Served& served);

/// Returns the Content-Security-Policy for a page: it loads nothing and runs only page_script(). A
/// page from a server may also request data from that server.
std::string page_policy(bool is_served);

/// The script in every page. It shows the values of curves under the pointer, filters long tables,
/// and updates a page that has events. All pages are readable without it.
std::string_view page_script();

/// Returns the document as GitHub Flavored Markdown, without charts and images.
std::string markdown(const Document& document);

}  // namespace runner
