#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "runner/shared/text/printable.h"
#include "stages/data/annotation_files.h"
#include "stages/data/csv_table.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

constexpr std::size_t kMaxLabelBytes = 200;

/// True if `label` can be the name of a folder.
bool is_folder_name(std::string_view label) {
  return !label.empty() && label.size() <= kMaxLabelBytes && label.front() != '.' &&
         label.find('/') == label.npos && runner::printable(label) == label;
}

}  // namespace

ListedImages read_split_csv(AnnotationFiles& files, const std::string& name) {
  ListedImages list;
  std::vector<std::string> labels;  // the label of each path
  std::map<std::string, std::int64_t> positions;
  std::map<std::string, std::string> written;  // first spellings, by compared_name()
  CsvTable table(files, name, kMaxListBytes);
  if (table.header_line() == 0) return list;
  const auto column = [&](const char* title) {
    return static_cast<std::size_t>(std::ranges::find(table.columns(), title) -
                                    table.columns().begin());
  };
  const std::size_t file_column = column("filename"), label_column = column("label");
  if (std::max(file_column, label_column) >= table.columns().size()) {
    files.fault(name, table.header_line(), "it does not have the columns 'filename' and 'label'");
    return list;
  }
  table.for_rows([&](std::size_t line, std::vector<std::string>& fields) {
    if (!is_folder_name(fields[label_column])) {
      files.fault(name, line, "its label cannot be the name of a folder");
      return;
    }
    list.paths.push_back(std::move(fields[file_column]));
    list.lines.push_back(line);
    std::string& label = fields[label_column];
    std::string same = compared_name(label);
    labels.push_back(written.emplace(std::move(same), std::move(label)).first->second);
    positions.emplace(labels.back(), 0);
  });
  for (auto& [label, position] : positions) {
    position = static_cast<std::int64_t>(list.classes.size());
    list.classes.push_back(label);
  }
  for (const std::string& label : labels) list.labels.push_back(positions.at(label));
  return list;
}

}  // namespace stages
