#include <algorithm>
#include <string_view>
#include <utility>

#include "runner/parent/page/document.h"
#include "runner/parent/report/table_text.h"
#include "runner/shared/disk/digest.h"

namespace runner {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--paper:#ffffff;--ink:#24292f;--faint:#57606a;--rule:#d0d7de;--raised:#f6f8fa;--link:#0a58a8}
@media screen and (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--faint:#9da7b3;--rule:#30363d;--raised:#161b22;--link:#79b8ff}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:72rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;overflow-wrap:break-word}
h1{font-size:1.6rem;margin:.2rem 0 .6rem}h2{font-size:1.25rem;margin:2rem 0 .6rem;padding-bottom:.2rem;border-bottom:1px solid var(--rule)}h3{font-size:1.05rem;margin:1.4rem 0 .4rem}
p{margin:.4rem 0;max-width:50rem}a{color:var(--link)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:0;padding:0;list-style:none}
.wide{overflow-x:auto;margin:.5rem 0}.wide:focus-visible,summary:focus-visible{outline:2px solid var(--link)}
table{border-collapse:collapse;font-size:.9rem}caption{text-align:left;color:var(--faint);padding-bottom:.2rem}
th,td{text-align:left;padding:.15rem .8rem .15rem 0;border-bottom:1px solid var(--rule);vertical-align:top}th{font-weight:600}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{margin:0;padding:.6rem;background:var(--raised);border:1px solid var(--rule);border-radius:6px;font:.82rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
summary{cursor:pointer;color:var(--link)}details{margin:.5rem 0}
.charts,.photos{display:grid;gap:1rem;margin:.6rem 0}
.charts{grid-template-columns:repeat(auto-fill,minmax(min(100%,30rem),1fr))}.photos{grid-template-columns:repeat(auto-fill,minmax(9rem,1fr))}
.charts svg{max-width:100%;height:auto;display:block}figure{margin:0;min-width:0}
.charts .large{grid-column:1/-1;overflow-x:auto}.charts .large svg{min-width:36rem}
.photos img{display:block;width:100%;max-width:10rem;height:auto;border-radius:4px}figcaption{font-size:.8rem;color:var(--faint)}
form{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:end;margin:.6rem 0}label{display:grid;justify-items:start;font-size:.8rem;color:var(--faint)}
input,select,button{font:inherit;font-size:.9rem;max-width:100%;padding:.2rem .4rem;color:var(--ink);background:var(--raised);border:1px solid var(--faint);border-radius:4px}
.links{margin:.6rem 0}#progress:not(:empty){padding:.3rem .6rem;background:var(--raised);border-left:3px solid var(--link);max-width:none}
.tip{position:fixed;pointer-events:none;white-space:pre;padding:.2rem .5rem;font-size:.8rem;background:var(--raised);color:var(--ink);border:1px solid var(--rule);border-radius:4px}
@media print{body{max-width:none;padding:0;font-size:11px}nav,form,.tip{display:none}table,pre,figcaption{font-size:11px}figure,tr{break-inside:avoid}h2,h3,caption,summary{break-after:avoid}.wide,.charts .large{overflow:visible}.charts .large svg{min-width:0}pre{white-space:pre-wrap}
details::details-content{display:block;content-visibility:visible;height:auto}summary{list-style:none;color:inherit}}
)";

constexpr double kLargestInColumn = 520;  // a wider chart gets a row of its own

/// Returns Base64 as in RFC 4648, with padding.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    unsigned bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= count ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// Returns the bytes represented by hexadecimal digits.
std::string bytes_of_hex(std::string_view digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return bytes;
}

/// Writes the blocks of a document one after the other.
class PageWriter {
 public:
  /// `served` is null for a file.
  PageWriter(const Document& document, const Served* served)
      : document_(document), served_(served) {}

  std::string page() {
    for (const Block& block : document_.blocks) {
      open_group(std::holds_alternative<Figure>(block) ? "charts" : "");
      std::visit([this](const auto& one) { write(one); }, block);
    }
    open_group("");
    const std::string title = markup_text(document_.title);
    return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
           "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
           "http-equiv=\"Content-Security-Policy\" content=\"" +
           page_policy(served_) + "\">\n<title>" + title + "</title>\n" + icon() + "<style>" +
           std::string(kStyle) + Drawing::style_sheet() +
           "</style>\n</head>\n<body>\n<header><h1>" + title + "</h1>\n" + contents() + progress() +
           "</header>\n<main" + events() + ">\n" + body_ + "</main>\n<script>" +
           std::string(page_script()) + "</script>\n</body>\n</html>\n";
  }

 private:
  void write(const Heading& heading) {
    heading_ = heading.text;
    const std::string tag = "h" + std::to_string(heading.level);
    std::string id;
    if (heading.level == 2) {
      id = "section-" + std::to_string(sections_.size() + 1);
      sections_.emplace_back(id, heading.text);
      id = " id=\"" + id + "\"";
    }
    body_ += "<" + tag + id + ">" + markup_text(heading.text) + "</" + tag + ">\n";
  }

  void write(const Paragraph& paragraph) {
    body_ += "<p>" + markup_text(paragraph.text) + "</p>\n";
  }

  void write(const Table& table) {
    if (table.rows.size() < 2) return;
    begin_wide(table.caption, table.is_folded);
    body_ += "<table>";
    if (!table.is_folded && !table.caption.empty() && table.caption != heading_)
      body_ += "<caption>" + markup_text(table.caption) + "</caption>";
    const std::vector<bool> are_numbers = number_columns(table.rows);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      body_ += row == 0 ? "<thead><tr>" : row == 1 ? "<tbody><tr>" : "<tr>";
      for (std::size_t column = 0; column < table.rows[row].size(); ++column) {
        const std::string tag = row == 0 ? "th" : "td";
        const auto link = table.links.find({row, column});
        const std::string text = markup_text(table.rows[row][column]);
        body_ += "<" + tag + (row == 0 ? " scope=\"col\"" : "") +
                 (are_numbers[column] ? " class=\"number\">" : ">") +
                 (link == table.links.end() ? text : link_to(link->second, text)) + "</" + tag +
                 ">";
      }
      body_ += row == 0 ? "</tr></thead>\n" : "</tr>\n";
    }
    body_ += table.rows.size() > 1 ? "</tbody></table>" : "</table>";
    end_wide(table.is_folded);
  }

  void write(const Links& links) {
    body_ += "<nav class=\"links\" aria-label=\"" + markup_text(links.label) + "\"><ul>\n";
    for (const auto& [text, address] : links.links) {
      const std::string shown = markup_text(text);
      body_ += "<li>" +
               (address.empty() ? "<span aria-current=\"page\">" + shown + "</span>"
                                : link_to(address, shown)) +
               "</li>\n";
    }
    body_ += "</ul></nav>\n";
  }

  void write(const Form& form) {
    body_ += "<form method=\"get\" action=\"" + markup_text(form.address) + "\">\n";
    for (const Form::Field& field : form.fields) {
      const std::string name = " name=\"" + markup_text(field.name) + "\"",
                        value = " value=\"" + markup_text(field.value) + "\"";
      if (field.label.empty()) body_ += "<input type=\"hidden\"" + name + value + ">\n";
      else
        body_ += "<label>" + markup_text(field.label) +
                 (field.choices.empty() ? "<input" + name + value + ">" : select(name, field)) +
                 "</label>\n";
    }
    body_ += "<button>" + markup_text(form.button) + "</button></form>\n";
  }

  static std::string select(const std::string& name, const Form::Field& field) {
    std::string text = "<select" + name + ">";
    for (const auto& [value, shown] : field.choices)
      text += "<option value=\"" + markup_text(value) + "\"" +
              (value == field.value ? " selected>" : ">") + markup_text(shown) + "</option>";
    return text + "</select>";
  }

  /// `text` is markup.
  static std::string link_to(const std::string& address, const std::string& text) {
    return "<a href=\"" + markup_text(address) + "\">" + text + "</a>";
  }

  void write(const CodeBlock& block) {
    begin_wide(block.caption, block.is_folded);
    body_ += "<pre>";
    std::string_view rest = block.text;
    while (!rest.empty()) {  // markup_text() would join the lines
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      body_ += markup_text(rest.substr(0, end)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    body_ += "</pre>";
    end_wide(block.is_folded);
  }

  void write(const Figure& figure) {
    const std::string id = "chart-" + std::to_string(++charts_);
    const bool is_large = figure.drawing.width() > kLargestInColumn;
    body_ += (is_large ? "<figure class=\"large\" tabindex=\"0\">" : "<figure>") +
             figure.drawing.inlined(id) + "</figure>\n";
  }

  void write(const Gallery& gallery) {
    body_ += "<div class=\"photos\">\n";
    for (const Photo& photo : gallery.photos) {
      body_ += "<figure><img alt=\"" + markup_text(photo.alternative) +
               "\" src=\"data:image/jpeg;base64," + base64(photo.jpeg) + "\"><figcaption>";
      for (std::size_t i = 0; i < photo.lines.size(); ++i)
        body_ += (i == 0 ? "" : "<br>") + markup_text(photo.lines[i]);
      body_ += "</figcaption></figure>\n";
    }
    body_ += "</div>\n";
  }

  /// Opens an area that scrolls horizontally and can be reached with the keyboard.
  void begin_wide(const std::string& caption, bool is_folded) {
    if (is_folded) body_ += "<details><summary>" + markup_text(caption) + "</summary>\n";
    body_ += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" +
             markup_text(caption.empty() ? "table" : caption) + " (" + std::to_string(++areas_) +
             ")\">";
  }

  void end_wide(bool is_folded) { body_ += is_folded ? "</div></details>\n" : "</div>\n"; }

  void open_group(const std::string& name) {
    if (name == group_) return;
    if (!group_.empty()) body_ += "</div>\n";
    if (!name.empty()) body_ += "<div class=\"" + name + "\">\n";
    group_ = name;
  }

  /// Browsers request an icon from the server unless the page has one.
  std::string icon() const { return served_ ? "<link rel=\"icon\" href=\"data:,\">\n" : ""; }

  std::string progress() const {
    return served_ ? "<p id=\"progress\">" + markup_text(served_->progress) + "</p>\n" : "";
  }

  std::string events() const {
    return served_ && !served_->events.empty()
               ? " data-events=\"" + markup_text(served_->events) + "\""
               : "";
  }

  std::string contents() const {
    if (sections_.empty()) return "";
    std::string items;
    for (const auto& [id, text] : sections_)
      items += "<li><a href=\"#" + id + "\">" + markup_text(text) + "</a></li>\n";
    return "<nav aria-label=\"Sections\"><ul>\n" + items + "</ul></nav>\n";
  }

  const Document& document_;
  const Served* const served_;
  std::string heading_;       // the last one
  std::string body_, group_;  // the class of the open group of figures; empty: none is open
  std::vector<std::pair<std::string, std::string>> sections_;  // id and text
  int charts_ = 0, areas_ = 0;
};

}  // namespace

std::string html_page(const Document& document) { return PageWriter(document, nullptr).page(); }

std::string html_page(const Document& document, const Served& served) {
  return PageWriter(document, &served).page();
}

std::string page_policy(bool is_served) {
  const std::string digest = base64(bytes_of_hex(sha256(page_script())));
  return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
         digest + "'; base-uri 'none'; form-action " +
         (is_served ? "'self'; connect-src 'self'" : "'none'");
}

}  // namespace runner
