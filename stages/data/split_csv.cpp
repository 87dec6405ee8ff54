#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "runner/text/printable.h"
#include "stages/data/listed_images.h"

namespace stages {
namespace {

constexpr std::size_t kMaxLabelBytes = 200;

/// The fields of a line, which may be in quotes; nullopt where a quote is not closed, or followed by something.
std::optional<std::vector<std::string>> csv_fields(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    std::string field;
    if (line.starts_with('"')) {
      std::size_t at = 1;
      for (; at < line.size(); ++at) {
        if (line[at] != '"') field += line[at];
        else if (line.substr(at + 1).starts_with('"')) field += line[at++];
        else break;
      }
      if (at == line.size()) return std::nullopt;
      line.remove_prefix(at + 1);
      if (!line.empty() && line.front() != ',') return std::nullopt;
    } else {
      field = line.substr(0, line.find(','));
      line.remove_prefix(field.size());
    }
    fields.push_back(std::move(field));
    if (line.empty()) return fields;
    line.remove_prefix(1);
  }
}

/// Can it be the name of a folder?
bool is_folder_name(std::string_view label) {
  return !label.empty() && label.size() <= kMaxLabelBytes && label.front() != '.' && label.find('/') == label.npos &&
         runner::printable(label) == label;
}

}  // namespace

ListedImages read_split_csv(AnnotationFiles& files, const std::string& name) {
  ListedImages list;
  std::vector<std::string> labels;  // of each path
  std::map<std::string, std::int64_t> positions;
  std::size_t columns = 0, file_column = 0, label_column = 0;
  bool has_columns = true;
  files.for_lines(name, kMaxListBytes, [&](std::size_t number, std::string_view line) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.empty() || !has_columns) return;
    auto fields = csv_fields(line);
    if (columns == 0) {
      const auto column = [&](const char* title) {
        return fields ? static_cast<std::size_t>(std::ranges::find(*fields, title) - fields->begin()) : 0;
      };
      file_column = column("filename");
      label_column = column("label");
      columns = fields ? fields->size() : 0;
      has_columns = columns > 0 && file_column < columns && label_column < columns;
      if (!has_columns) files.fault(name, number, "it does not name the columns 'filename' and 'label'");
      return;
    }
    if (!fields) {
      files.fault(name, number, "its quotes do not match");
    } else if (fields->size() != columns) {
      files.fault(name, number,
                  "it has " + std::to_string(fields->size()) + " fields, and there are " + std::to_string(columns) +
                      " columns");
    } else if (!is_folder_name((*fields)[label_column])) {
      files.fault(name, number, "its label cannot be the name of a folder");
    } else {
      list.paths.push_back(std::move((*fields)[file_column]));
      list.lines.push_back(number);
      positions.emplace((*fields)[label_column], 0);
      labels.push_back(std::move((*fields)[label_column]));
    }
  });
  for (auto& [label, position] : positions) {
    position = static_cast<std::int64_t>(list.classes.size());
    list.classes.push_back(label);
  }
  for (const std::string& label : labels) list.labels.push_back(positions.at(label));
  return list;
}

}  // namespace stages
