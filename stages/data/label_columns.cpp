#include "stages/data/label_columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/text/printable.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

/// Returns whether `field` marks the label as present; nullopt if the field is not a mark.
std::optional<bool> mark(std::string_view field) {
  for (const std::string_view yes : {"1", "1.0", "true", "True", "TRUE"})
    if (field == yes) return true;
  for (const std::string_view no : {"0", "0.0", "false", "False", "FALSE"})
    if (field == no) return false;
  return std::nullopt;
}

}  // namespace

std::string in_quotes(std::string_view text) { return "'" + runner::printable(text) + "'"; }

std::string_view without_spaces(std::string_view field) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t first = field.find_first_not_of(kSpaces);
  return first == field.npos ? ""
                             : field.substr(first, field.find_last_not_of(kSpaces) - first + 1);
}

std::vector<std::string> read_target_columns(runner::ConfigReader& reader) {
  std::vector<std::string> columns;
  const runner::Value* const value = reader.raw("target");
  if (!value || value->is_null()) return columns;
  if (value->text()) reader.read("target", columns.emplace_back());
  else reader.read("target", columns);
  return columns;
}

std::optional<double> finite_number(std::string_view field) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(field.begin(), field.end(), number);
  if (error != std::errc() || end != field.end() || !std::isfinite(number)) return std::nullopt;
  return number;
}

LabelColumns read_label_columns(runner::ConfigReader& labels) {
  LabelColumns columns;
  std::optional<std::string> column;
  labels.read("column", column);
  labels.read("separator", columns.separator);
  if (const runner::Value* value = labels.raw("columns"); value && !value->is_null())
    labels.read("columns", columns.columns);
  columns.may_be_empty = runner::choice<bool>(labels, "empty", {{"error", false}, {"none", true}});
  columns.column = column.value_or("");
  return columns;
}

LabelRows::LabelRows(LabelColumns columns) : columns_(std::move(columns)) {
  if (columns_.column.empty()) names_ = columns_.columns;
}

std::string LabelRows::add(const std::vector<std::string>& fields) {
  std::vector<std::int64_t> row;
  std::string fault =
      columns_.column.empty() ? add_marked(fields, row) : add_listed(fields.front(), row);
  if (!fault.empty()) return fault;
  std::ranges::sort(row);
  rows_.push_back(std::move(row));
  return "";
}

std::string LabelRows::add_listed(const std::string& field, std::vector<std::int64_t>& row) {
  const std::string_view all = without_spaces(field);
  if (all.empty()) {
    return columns_.may_be_empty ? ""
                                 : "it has no labels in the column " + in_quotes(columns_.column) +
                                       ": write them, or set labels.empty: none if such images "
                                       "have none of the labels";
  }
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find(columns_.separator, at), all.size());
    const std::string_view name = without_spaces(all.substr(at, end - at));
    at = end + columns_.separator.size();
    if (name.empty()) return "its labels " + in_quotes(all) + " contain an empty one";
    if (runner::printable(name) != name)
      return "its " + in_quotes(columns_.column) + " contains unprintable characters";
    const auto [found, is_new] = known_.emplace(compared_name(name), std::ssize(names_));
    if (is_new) names_.emplace_back(name);
    if (std::ranges::find(row, found->second) != row.end())
      return "its label " + in_quotes(name) + " occurs twice";
    row.push_back(found->second);
    if (end == all.size()) break;
  }
  return "";
}

std::string LabelRows::add_marked(const std::vector<std::string>& fields,
                                  std::vector<std::int64_t>& row) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string_view field = without_spaces(fields[i]);
    const auto has = mark(field);
    if (!has) {
      return "its column " + in_quotes(names_[i]) + " is " +
             (field.empty() ? std::string("empty") : in_quotes(field)) +
             ", but it must be 1 or 0: an image without a known value cannot be used";
    }
    if (*has) row.push_back(static_cast<std::int64_t>(i));
  }
  return "";
}

std::vector<LabelsOfImage> LabelRows::number(ImageList& list) const {
  std::vector<std::size_t> order(names_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!columns_.column.empty())
    std::ranges::sort(order, {}, [&](std::size_t i) -> const std::string& { return names_[i]; });
  std::vector<std::int64_t> label_of(names_.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    label_of[order[place]] = static_cast<std::int64_t>(place);
    list.classes.push_back(names_[order[place]]);
  }
  std::vector<std::vector<std::int64_t>> images = rows_;
  for (auto& labels : images)
    for (std::int64_t& label : labels) label = label_of[static_cast<std::size_t>(label)];
  return add_label_sets(list, std::move(images));
}

std::vector<LabelsOfImage> add_label_sets(ImageList& list,
                                          std::vector<std::vector<std::int64_t>> images) {
  list.has_label_sets = true;
  std::vector<std::int64_t> counts(list.classes.size());
  for (const auto& labels : images)
    for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
  if (std::ranges::all_of(counts, [](std::int64_t count) { return count == 0; })) return {};
  const std::int64_t most = std::ranges::max_element(counts) - counts.begin();
  std::map<std::vector<std::int64_t>, std::int64_t> sets;
  std::vector<LabelsOfImage> result;
  for (std::vector<std::int64_t>& labels : images) {
    std::ranges::sort(labels);
    const auto rarest = std::ranges::min_element(
        labels, {}, [&](std::int64_t label) { return counts[static_cast<std::size_t>(label)]; });
    const std::int64_t by = rarest == labels.end() ? most : *rarest;
    const auto [found, is_new] = sets.emplace(labels, std::ssize(list.label_sets));
    if (is_new) list.label_sets.push_back(labels);
    result.push_back({found->second, by});
  }
  return result;
}

std::vector<bool> relabel(ImageList& list, const std::vector<std::string>& classes) {
  std::unordered_map<std::string_view, std::int64_t> labels;
  for (const std::string& name : classes)
    labels.emplace(name, static_cast<std::int64_t>(labels.size()));
  std::vector<bool> known;
  for (std::vector<std::int64_t>& set : list.label_sets) {
    std::vector<std::int64_t> changed;
    for (const std::int64_t label : set) {
      const auto found = labels.find(list.classes[static_cast<std::size_t>(label)]);
      if (found != labels.end()) changed.push_back(found->second);
    }
    known.push_back(changed.size() == set.size());
    std::ranges::sort(changed);
    set = known.back() ? std::move(changed) : std::vector<std::int64_t>();
  }
  return known;
}

}  // namespace stages
