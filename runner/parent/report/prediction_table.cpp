#include "runner/parent/report/prediction_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/finite_number.h"

namespace runner {
namespace {

constexpr std::size_t kLargestPooledTable = std::size_t{1} << 30;
// The prefixes of grades in column names: first for ensembles that vote, then for networks.
constexpr std::array<std::string_view, 2> kGradePrefixes = {"score_", "p_"};
constexpr std::string_view kLabelPrefix = "p_";
constexpr std::string_view kTrueColumn = "target", kPredictedColumn = "prediction";

std::optional<std::size_t> place_of_column(const std::vector<std::string>& columns,
                                           std::string_view name) {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

std::size_t required_column(const std::vector<std::string>& columns,
                            std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto found = place_of_column(columns, name)) return *found;
  throw std::runtime_error("it has no column '" + std::string(*names.begin()) + "'");
}

std::vector<PredictionTable::Target> target_columns(const std::vector<std::string>& columns) {
  std::vector<PredictionTable::Target> targets;
  for (std::size_t place = 0; place < columns.size(); ++place) {
    const std::string_view title = columns[place];
    if (!title.starts_with(kTrueColumn)) continue;
    const std::string_view suffix = title.substr(kTrueColumn.size());
    const auto predicted =
        place_of_column(columns, std::string(kPredictedColumn) + std::string(suffix));
    if (!predicted || (!suffix.empty() && suffix.front() != '_')) continue;
    targets.push_back({.name = std::string(suffix.substr(suffix.empty() ? 0 : 1)),
                       .truth = place,
                       .predicted = *predicted});
  }
  return targets;
}

/// Finds the columns of an evaluation with classes, grades or labels.
void find_class_columns(PredictionTable& table) {
  if (!place_of_column(table.columns, "label") && !place_of_column(table.columns, "grade")) return;
  table.has_classes = true;
  table.label = required_column(table.columns, {"label", "grade"});
  table.predicted = required_column(table.columns, {"predicted", "prediction"});
  while (const auto best =
             place_of_column(table.columns, "top_" + std::to_string(table.best.size() + 1)))
    table.best.push_back(*best);
  table.label_probability = place_of_column(table.columns, "label_probability");
  for (const std::string_view prefix : kGradePrefixes)
    if (table.grades.empty() && place_of_column(table.columns, "grade"))
      for (const std::string& one : table.columns)
        if (one.starts_with(prefix)) table.grades.push_back(one.substr(prefix.size()));
  for (const std::string& grade : table.grades)
    if (const auto place = place_of_column(table.columns, "p_" + grade))
      table.probabilities.push_back(*place);
  if (table.probabilities.size() != table.grades.size()) table.probabilities.clear();
  if (!table.best.empty() || !table.grades.empty() || table.label_probability) return;
  for (std::size_t place = 0; place < table.columns.size(); ++place)
    if (table.columns[place].starts_with(kLabelPrefix))
      table.labels.push_back({table.columns[place].substr(kLabelPrefix.size()), place});
}

/// Parses predictions.csv. Throws std::runtime_error if it is not valid.
PredictionTable prediction_table_from(std::string_view text) {
  PredictionTable table;
  auto row = take_csv_line(text);
  if (!row) throw std::runtime_error("it is empty");
  table.columns = *std::move(row);
  table.name = required_column(table.columns, {"name"});
  table.group = place_of_column(table.columns, "group");
  table.targets = target_columns(table.columns);
  if (table.targets.empty()) find_class_columns(table);
  std::vector<std::size_t> numbers;  // columns
  for (const PredictionTable::Target& target : table.targets)
    numbers.insert(numbers.end(), {target.truth, target.predicted});
  for (const PredictionTable::Label& label : table.labels) numbers.push_back(label.probability);
  for (std::size_t number = 2; (row = take_csv_line(text)); ++number) {
    if (row->size() != table.columns.size())
      throw std::runtime_error("its row " + std::to_string(number) + " has " +
                               std::to_string(row->size()) + " fields, not " +
                               std::to_string(table.columns.size()));
    for (const std::size_t place : numbers)
      if (!std::isfinite(number_of_field((*row)[place])))
        throw std::runtime_error("one of its values is not a finite number");
    table.rows.push_back(*std::move(row));
  }
  return table;
}

}  // namespace

double number_of_field(const std::string& field) {
  return finite_number(field).value_or(std::nan(""));
}

Result<PredictionTable> read_prediction_table(const std::filesystem::path& folder,
                                              const std::string& node) {
  const std::filesystem::path path = RunLayout(folder).node(node).folder() / "predictions.csv";
  const auto text = real_file_system().read(path, kLargestPooledTable);
  if (!text) {
    return Diagnostic{ErrorCode::kNoResults,
                      {},
                      "",
                      "there is no '" + path.string() + "'",
                      "evaluate with csv: true, the default"};
  }
  try {
    return prediction_table_from(*text);
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' cannot be used: " + error.what(),
                      "evaluate the run again with `retort evaluate " + folder.string() + "`"};
  }
}

}  // namespace runner
