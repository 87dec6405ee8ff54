#include "stages/data/csv_table.h"

#include <algorithm>

namespace stages {
namespace {

std::size_t line_end_length(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  return text.starts_with('\n') ? 1 : 0;
}

/// Removes the first line from `text` and returns it with its line break.
std::string_view take_line(std::string_view& text) {
  const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
  const std::string_view line = text.substr(0, size);
  text.remove_prefix(size);
  return line;
}

bool ends_field(std::string_view text) {
  return text.empty() || text.front() == ',' || line_end_length(text) > 0 || text == "\r";
}

}  // namespace

bool CsvRecords::next() {
  while (line_end_length(rest_) > 0) {
    take_line(rest_);
    ++next_line_;
  }
  if (rest_.empty() || rest_ == "\r") return false;
  line_ = next_line_;
  std::string_view after = rest_;
  is_whole_ = take_fields(after);
  if (!is_whole_) {
    fields_.clear();
    take_line(after = rest_);
  }
  const std::string_view taken = rest_.substr(0, rest_.size() - after.size());
  next_line_ += static_cast<std::size_t>(std::ranges::count(taken, '\n'));
  rest_ = after;
  return true;
}

/// Removes the first record from `rest` and reads its fields. Returns false if its quotes are
/// malformed.
bool CsvRecords::take_fields(std::string_view& rest) {
  fields_.clear();
  while (true) {
    std::string& field = fields_.emplace_back();
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      while (true) {
        const std::size_t quote = rest.find('"');
        if (quote == rest.npos) return false;
        field += rest.substr(0, quote);
        rest.remove_prefix(quote + 1);
        if (!rest.starts_with('"')) break;
        field += '"';
        rest.remove_prefix(1);
      }
      if (!ends_field(rest)) return false;
    } else {
      std::size_t size = std::min(rest.find_first_of(",\n"), rest.size());
      if (size > 0 && rest[size - 1] == '\r' && !rest.substr(size).starts_with(',')) --size;
      field = rest.substr(0, size);
      rest.remove_prefix(size);
    }
    if (!rest.starts_with(',')) break;
    rest.remove_prefix(1);
  }
  rest.remove_prefix(rest == "\r" ? 1 : line_end_length(rest));
  return true;
}

CsvTable::CsvTable(AnnotationFiles& files, std::string name, std::size_t limit)
    : files_(files), name_(std::move(name)), text_(files.read(name_, limit).value_or("")) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view text = text_;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  records_ = CsvRecords(text);
  if (!records_.next()) return;
  columns_ = records_.fields();
  header_line_ = records_.line();
}

void CsvTable::for_rows(const std::function<void(std::size_t, std::vector<std::string>&)>& use) {
  while (records_.next()) {
    if (!records_.is_whole()) {
      files_.fault(name_, records_.line(), "its quotes are unbalanced");
    } else if (records_.fields().size() != columns_.size()) {
      files_.fault(name_, records_.line(),
                   "it has " + std::to_string(records_.fields().size()) +
                       " fields, but there are " + std::to_string(columns_.size()) + " columns");
    } else {
      use(records_.line(), records_.fields());
    }
  }
}

}  // namespace stages
