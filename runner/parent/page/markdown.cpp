#include <string_view>

#include "runner/parent/page/document.h"
#include "runner/parent/report/table_text.h"
#include "runner/shared/text/markdown_text.h"

namespace runner {
namespace {

/// Returns a fence that does not occur in `text`.
std::string fence_for(std::string_view text) {
  std::string fence = "```";
  while (text.find(fence) != text.npos) fence += '`';
  return fence;
}

struct MarkdownWriter {
  std::string text;

  void operator()(const Heading& heading) {
    heading_ = heading.text;
    text += std::string(static_cast<std::size_t>(heading.level), '#') + " " +
            markdown_text(heading.text) + "\n\n";
  }

  void operator()(const Paragraph& paragraph) { text += markdown_text(paragraph.text) + "\n\n"; }

  void operator()(const Table& table) {
    if (table.rows.size() < 2) return;
    fold(table.caption, table.is_folded);
    if (!table.is_folded && !table.caption.empty() && table.caption != heading_)
      text += "**" + markdown_text(table.caption) + "**\n\n";
    const std::vector<bool> are_numbers = number_columns(table.rows);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      for (const std::string& cell : table.rows[row]) text += "| " + markdown_text(cell) + " ";
      text += "|\n";
      if (row > 0) continue;
      for (std::size_t column = 0; column < table.rows[0].size(); ++column)
        text += are_numbers[column] ? "|---:" : "|---";
      text += "|\n";
    }
    unfold(table.is_folded);
  }

  void operator()(const Links& links) {
    for (const auto& [shown, address] : links.links)
      text += address.empty() ? markdown_text(shown) + "\n"
                              : "[" + markdown_text(shown) + "](" + address + ")\n";
    text += "\n";
  }

  void operator()(const CodeBlock& block) {
    fold(block.caption, block.is_folded);
    const std::string fence = fence_for(block.text);
    text += fence + "\n" + block.text + (block.text.ends_with('\n') ? "" : "\n") + fence + "\n";
    unfold(block.is_folded);
  }

  void operator()(const Form&) {}
  void operator()(const Figure&) {}
  void operator()(const Gallery&) {}

 private:
  std::string heading_;  // the last one

  void fold(const std::string& caption, bool is_folded) {
    if (is_folded) text += "<details><summary>" + markup_text(caption) + "</summary>\n\n";
  }
  void unfold(bool is_folded) { text += is_folded ? "\n</details>\n\n" : "\n"; }
};

/// True if Markdown shows nothing of the block.
bool shows_nothing(const Block& block) {
  if (const auto* table = std::get_if<Table>(&block)) return table->rows.size() < 2;
  return std::holds_alternative<Form>(block) || std::holds_alternative<Figure>(block) ||
         std::holds_alternative<Gallery>(block);
}

/// True if the block is a heading with no visible content before the next heading at its level.
bool is_empty_section(const std::vector<Block>& blocks, std::size_t at) {
  const auto* const heading = std::get_if<Heading>(&blocks[at]);
  if (!heading) return false;
  for (std::size_t i = at + 1; i < blocks.size(); ++i) {
    const auto* const next = std::get_if<Heading>(&blocks[i]);
    if (next && next->level <= heading->level) return true;
    if (!next && !shows_nothing(blocks[i])) return false;
  }
  return true;
}

}  // namespace

std::string markdown(const Document& document) {
  MarkdownWriter writer;
  writer.text = "# " + markdown_text(document.title) + "\n\n";
  for (std::size_t i = 0; i < document.blocks.size(); ++i)
    if (!is_empty_section(document.blocks, i)) std::visit(writer, document.blocks[i]);
  writer.text.pop_back();  // the last empty line
  return writer.text;
}

}  // namespace runner
