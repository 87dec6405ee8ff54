#include "stages/data/image_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/suggest.h"
#include "stages/data/annotation_files.h"
#include "stages/data/csv_table.h"
#include "stages/data/image_files.h"
#include "stages/data/image_groups.h"
#include "stages/data/image_stage.h"
#include "stages/data/label_columns.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

/// Returns the names of the label columns, for the run's record.
std::string labels_text(const ImageTable& table) {
  if (!table.targets.empty()) return "target '" + runner::join(table.targets, "', '") + "'";
  if (!table.labels) return "label '" + table.label + "'";
  const std::string& column = table.labels->column;
  return column.empty() ? "labels '" + runner::join(table.labels->columns, "', '") + "'"
                        : "labels '" + column + "' between '" + table.labels->separator + "'";
}

runner::Result<std::unique_ptr<runner::Stage>> create_image_table(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  ImageTable table{.root = options.root,
                   .file = {},
                   .image = {},
                   .label = {},
                   .allow_outside = options.allow_outside};
  std::string file;
  reader.read("table", file);
  table.file = file;
  reader.read("image", table.image);
  std::optional<std::string> label;
  reader.read("label", label);
  table.label = label.value_or("");
  if (runner::ConfigReader* const labels = section_or_null(reader, "labels"))
    table.labels = read_label_columns(*labels);
  table.targets = read_target_columns(reader);
  reader.read("part", table.part);
  reader.read("group", table.group);
  reader.read("minimum_per_class", table.minimum_per_class);
  ImageSource source;
  source.divided_by = "table '" + file + "', image '" + table.image + "', " + labels_text(table) +
                      (table.part ? ", part '" + *table.part + "'" : "") +
                      (table.group ? ", group '" + *table.group + "'" : "") + ", at least " +
                      std::to_string(table.minimum_per_class) + " of a class";
  source.captions = read_captions(reader);
  read_split(reader.section("split"), source);
  source.folds = read_folds(reader);
  source.list = [table, captions = source.captions]() mutable {
    table.captions = captions;
    return list_image_table(table);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataImageTable = {.name = "data.image_table",
                                                  .create = create_image_table};

namespace {

namespace fs = std::filesystem;
using runner::Diagnostics;
using runner::ErrorCode;

constexpr std::size_t kNamedRows = 10, kNamedColumns = 40;
constexpr std::array kTableParts = {Part::kTrain, Part::kValidation, Part::kTest};

class TableLister {
 public:
  explicit TableLister(const ImageTable& table)
      : table_(table),
        files_(table.file.parent_path(), "correct the table"),
        name_(table.file.filename().string()) {
    list_.root = table.root;
    if (table.labels) label_rows_.emplace(*table.labels);
  }

  runner::Result<ImageList> list() {
    check_places();
    if (errors_.empty()) read();
    for (runner::Diagnostic& error : files_.errors()) {
      error.pointer = "/table";
      errors_.push_back(std::move(error));
    }
    if (errors_.empty()) {
      if (!table_.targets.empty()) name_targets();
      else if (label_rows_) number_labels();
      else leave_out_small_classes();
    }
    if (errors_.empty()) fill_parts();
    if (errors_.empty()) check_images();
    if (!errors_.empty()) return std::move(errors_);
    list_.annotations = files_.digest();
    return std::move(list_);
  }

 private:
  static constexpr std::int64_t kUnused = -1;
  struct Row {
    std::string path;
    std::string label;  // empty for label sets and targets
    std::vector<double> targets;
    std::string group;
    const std::vector<std::string>* facts = nullptr;
    Part part = Part::kTrain;
  };

  void check_places() {
    std::error_code error;
    if (!fs::is_directory(table_.root, error))
      fail("/root", ErrorCode::kMissingFolder, "there is no folder '" + table_.root.string() + "'",
           "check root");
    if (!fs::exists(table_.file, error))
      fail("/table", ErrorCode::kMissingAnnotations,
           "there is no file '" + table_.file.string() + "'", "correct the table's path");
  }

  void read() {
    CsvTable csv(files_, name_, kMaxListBytes);
    if (csv.columns().empty()) {
      if (files_.is_faultless()) {
        if (csv.header_line() == 0) files_.fault(name_, "it is empty");
        else files_.fault(name_, csv.header_line(), "its quotes are unbalanced");
      }
      return;
    }
    std::vector<std::string> titles;
    for (const std::string& title : csv.columns()) titles.emplace_back(without_spaces(title));
    const std::size_t image = column(titles, "image", table_.image);
    std::vector<std::size_t> labels;  // columns
    for (const std::string& title : label_titles())
      labels.push_back(column(titles, option_of_labels(), title));
    const std::size_t part = table_.part ? column(titles, "part", *table_.part) : 0;
    const std::size_t group = table_.group ? column(titles, "group", *table_.group) : 0;
    for (runner::Diagnostic& error : unknown_fields(table_.captions, titles))
      errors_.push_back(std::move(error));
    for (const CaptionTemplate& caption : table_.captions) {
      for (const std::string& field : caption.fields()) {
        if (std::ranges::find(list_.facts.fields, field) == list_.facts.fields.end())
          list_.facts.fields.push_back(field);
      }
    }
    check_twice(titles, csv.header_line());
    if (!errors_.empty() || !files_.is_faultless()) return;

    std::vector<std::size_t> told;  // the columns of the caption fields
    for (const std::string& field : list_.facts.fields)
      told.push_back(static_cast<std::size_t>(std::ranges::find(titles, field) - titles.begin()));
    csv.for_rows([&](std::size_t line, const std::vector<std::string>& fields) {
      Row row;
      row.part = table_.part ? part_of(line, fields[part]) : Part::kTrain;
      if (!table_.targets.empty()) row.targets = targets_of(line, fields, labels);
      else if (label_rows_) take_labels(line, fields, labels);
      else row.label = label_of(line, fields[labels.front()]);
      if (table_.group) row.group = group_of(line, fields[group]);
      row.facts = &facts_.emplace(facts_of(line, fields, told), kUnused).first->first;
      row.path = path_of(line, fields[image]);
      if (files_.is_faultless()) rows_.push_back(std::move(row));
    });
    if (files_.is_faultless() && rows_.empty()) files_.fault(name_, "it lists no images");
  }

  std::vector<std::string> label_titles() const {
    if (!table_.targets.empty()) return table_.targets;
    return table_.labels ? table_.labels->titles() : std::vector{table_.label};
  }
  std::string option_of_labels() const {
    if (!table_.targets.empty()) return "target";
    if (!table_.labels) return "label";
    return table_.labels->column.empty() ? "labels/columns" : "labels/column";
  }

  std::string label_of(std::size_t line, std::string_view field) {
    const std::string_view written = without_spaces(field);
    const std::string& label = labels_.emplace(compared_name(written), written).first->second;
    if (label.empty())
      files_.fault(name_, line, "it has no value in the column " + in_quotes(table_.label));
    else if (runner::printable(label) != label)
      files_.fault(name_, line,
                   "its " + in_quotes(table_.label) + " contains unprintable characters");
    return label;
  }

  void take_labels(std::size_t line, const std::vector<std::string>& fields,
                   const std::vector<std::size_t>& columns) {
    std::vector<std::string> own;
    for (const std::size_t column : columns) own.push_back(fields[column]);
    if (const std::string fault = label_rows_->add(own); !fault.empty())
      files_.fault(name_, line, fault);
  }

  std::vector<double> targets_of(std::size_t line, const std::vector<std::string>& fields,
                                 const std::vector<std::size_t>& columns) {
    std::vector<double> targets;
    for (const std::size_t column : columns) {
      const std::string_view field = without_spaces(fields[column]);
      const std::optional<double> number = finite_number(field);
      targets.push_back(number.value_or(0));
      if (number) continue;
      files_.fault(name_, line,
                   "its column " + in_quotes(table_.targets[targets.size() - 1]) + " is " +
                       (field.empty() ? std::string("empty") : in_quotes(field)) +
                       ", but it must be a finite number with a decimal point, such as 23.5");
    }
    return targets;
  }

  void name_targets() {
    list_.classes = table_.targets;
    list_.has_targets = true;
  }

  void number_labels() {
    sets_ = label_rows_->number(list_);
    if (!sets_.empty()) return;
    fail("/" + option_of_labels(), ErrorCode::kTooFewSamples,
         "no image in '" + table_.file.string() + "' has a label",
         "list the columns that contain labels");
  }

  std::size_t column(const std::vector<std::string>& titles, const std::string& option,
                     const std::string& title) {
    const auto found = std::ranges::find(titles, title);
    if (found == titles.end()) {
      const std::string near = runner::did_you_mean(title, titles);
      fail("/" + option, ErrorCode::kNotAllowedValue,
           "'" + table_.file.string() + "' has no column " + in_quotes(title),
           (near.empty() ? "" : near + " ") +
               ("its columns are " + runner::listed(titles, kNamedColumns, "'")));
    }
    return static_cast<std::size_t>(found - titles.begin());
  }

  /// Reports a column title that occurs twice, if the column is used.
  void check_twice(const std::vector<std::string>& titles, std::size_t line) {
    std::set<std::string> used(list_.facts.fields.begin(), list_.facts.fields.end());
    used.insert(table_.image);
    for (const std::string& title : label_titles()) used.insert(title);
    if (table_.part) used.insert(*table_.part);
    if (table_.group) used.insert(*table_.group);
    for (const std::string& title : used) {
      if (std::ranges::count(titles, title) > 1)
        files_.fault(name_, line, "it lists the column " + in_quotes(title) + " twice");
    }
  }

  Part part_of(std::size_t line, std::string_view field) {
    const std::string_view word = without_spaces(field);
    const auto* const part =
        std::ranges::find(kTableParts, word, [](Part part) { return stages::name(part); });
    if (part != kTableParts.end()) return *part;
    files_.fault(name_, line,
                 "its part is '" + runner::printable_ascii(word) +
                     "', but it must be train, validation or test");
    return Part::kTrain;
  }

  std::string group_of(std::size_t line, std::string_view field) {
    const std::string_view word = without_spaces(field);
    if (word.empty())
      files_.fault(name_, line, "it has no value in the column " + in_quotes(*table_.group));
    return std::string(word);
  }

  /// Returns the image's values for the caption fields.
  std::vector<std::string> facts_of(std::size_t line, const std::vector<std::string>& fields,
                                    const std::vector<std::size_t>& columns) {
    std::vector<std::string> values;
    for (const std::size_t column : columns) {
      values.emplace_back(without_spaces(fields[column]));
      if (values.back().empty())
        files_.fault(name_, line,
                     "it has no value in the column " +
                         in_quotes(list_.facts.fields[values.size() - 1]) +
                         ", which the caption uses");
    }
    return values;
  }

  std::string path_of(std::size_t line, std::string_view field) {
    std::string path(without_spaces(field));
    std::ranges::replace(path, '\\', '/');  // paths written on Windows
    path = fs::path(path).lexically_normal().string();
    if (const fs::path there = disk_.called(table_.root / path); there != table_.root / path)
      path = there.lexically_relative(table_.root).string();
    if (!is_image_path(path)) {
      files_.fault(name_, line,
                   "'" + runner::printable_ascii(field) + "' is not the path of a " +
                       std::string(runner::kImageEndings) + " file below root");
      return path;
    }
    const auto [first, is_new] = lines_.emplace(path, line);
    if (!is_new)
      files_.fault(name_, line,
                   "'" + runner::printable_ascii(path) + "' is listed twice, first on line " +
                       std::to_string(first->second));
    return path;
  }

  void leave_out_small_classes() {
    std::map<std::string, std::int64_t> counts;
    for (const Row& row : rows_) ++counts[row.label];
    std::vector<std::string> small;
    std::int64_t images = 0;
    for (const auto& [label, count] : counts) {
      if (count >= table_.minimum_per_class) {
        list_.classes.push_back(label);
        continue;
      }
      images += count;
      small.push_back(in_quotes(label) + " has " + std::to_string(count));
    }
    if (small.empty()) return;
    const std::string minimum = std::to_string(table_.minimum_per_class);
    if (list_.classes.empty()) {
      fail("/minimum_per_class", ErrorCode::kTooFewSamples,
           "none of the " + std::to_string(small.size()) + " classes in '" + table_.file.string() +
               "' has at least " + minimum + " images: " + runner::listed(small, kNamedRows),
           "lower minimum_per_class");
      return;
    }
    list_.notes.push_back(
        std::to_string(small.size()) + (small.size() == 1 ? " class" : " classes") +
        " with fewer than " + minimum + " images " + (small.size() == 1 ? "is" : "are") +
        " left out, dropping " + std::to_string(images) + (images == 1 ? " image: " : " images: ") +
        runner::listed(small, kNamedRows));
    std::erase_if(rows_,
                  [&](const Row& row) { return counts.at(row.label) < table_.minimum_per_class; });
  }

  void fill_parts() {
    list_.divided = table_.part.has_value();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      const std::int64_t label =
          list_.has_targets ? 0
          : label_rows_
              ? sets_[i].rarest
              : std::ranges::lower_bound(list_.classes, row.label) - list_.classes.begin();
      std::int64_t& facts = facts_.at(*row.facts);
      if (facts == kUnused) {
        facts = std::ssize(list_.facts.rows);
        list_.facts.rows.push_back(*row.facts);
      }
      list_[row.part].push_back({.name = std::move(row.path),
                                 .label = label,
                                 .facts = facts,
                                 .patient = std::move(row.group),
                                 .names_patient = table_.group.has_value(),
                                 .label_set = label_rows_ ? sets_[i].set : 0,
                                 .targets = std::move(row.targets)});
    }
    if (table_.part && table_.group)
      if (auto note = shared_groups(list_)) list_.notes.push_back(*std::move(note));
    if (list_[Part::kTrain].empty() && table_.part)
      list_.no_train = runner::Diagnostic{
          ErrorCode::kTooFewSamples,
          {},
          "/part",
          "'" + table_.file.string() + "' has no training images",
          "write train in the column " + in_quotes(*table_.part) + " for some images"};
  }

  void check_images() {
    std::vector<std::string> missing = missing_files(list_, table_.allow_outside, errors_);
    if (missing.empty()) return;
    std::ranges::sort(missing, {}, [&](const std::string& path) { return lines_.at(path); });
    for (std::string& path : missing)
      path = in_quotes(path) + " (line " + std::to_string(lines_.at(path)) + ")";
    fail("/root", ErrorCode::kMissingImage,
         std::to_string(missing.size()) + " of " + std::to_string(rows_.size()) +
             " images are not in '" + table_.root.string() +
             "': " + runner::listed(missing, kNamedRows),
         "paths in '" + table_.file.string() +
             "' are relative to root: fix root, or move the images into that folder");
  }

  void fail(std::string pointer, ErrorCode code, std::string message, std::string help) {
    errors_.push_back({code, {}, std::move(pointer), std::move(message), std::move(help)});
  }

  const ImageTable& table_;
  AnnotationFiles files_;
  const std::string name_;
  ImageList list_;
  Diagnostics errors_;
  std::vector<Row> rows_;
  std::map<std::vector<std::string>, std::int64_t> facts_;  // row indices into the list's facts
  std::unordered_map<std::string, std::size_t> lines_;      // by image path
  std::optional<LabelRows> label_rows_;                     // if images have label sets
  std::vector<LabelsOfImage> sets_;                         // by row
  std::map<std::string, std::string> labels_;               // first spelling, by compared_name()
  NamesOnDisk disk_;
};

}  // namespace

runner::Result<ImageList> list_image_table(const ImageTable& table) {
  return TableLister(table).list();
}

}  // namespace stages
