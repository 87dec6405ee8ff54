#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/annotation_files.h"
#include "stages/data/captions.h"
#include "stages/data/image_list.h"

namespace stages {

/// A CSV table of images, and the roles of its columns.
struct ImageTable {
  std::filesystem::path root;  ///< image paths are relative to it
  std::filesystem::path file;
  std::string image, label;  ///< the columns with image paths and class names
  /// The column with train, validation or test; nullopt: all images are for training.
  std::optional<std::string> part = {};
  /// The column with the group of an image, such as its patient; images of a group are divided
  /// together. nullopt: each image is alone.
  std::optional<std::string> group = {};
  std::int64_t minimum_per_class = 1;              ///< classes with fewer images are left out
  std::span<const CaptionTemplate> captions = {};  ///< their fields are column names
  bool allow_outside = false;
};

/// Lists the images of `table` in row order; classes are sorted bytewise. Caption templates can
/// name columns of the table. Spaces around a field are ignored. An empty path, label, group or
/// caption field is an error, and so is a duplicate image. Reports all errors at once, at the
/// responsible option: "/root", "/table", "/image", "/label", "/part", "/group", "/caption" or
/// "/minimum_per_class". Errors in rows and missing images are reported with line numbers.
runner::Result<ImageList> list_image_table(const ImageTable& table);

/// Reads the records of a CSV text (RFC 4180) one by one. Fields are separated by commas, and
/// quoted if they contain commas, quotes or line breaks; records end with "\n" or "\r\n". Empty
/// lines are skipped. Borrows the text.
class CsvRecords {
 public:
  explicit CsvRecords(std::string_view text) : rest_(text) {}

  /// Advances to the next record. Returns false at the end.
  bool next();
  /// The line on which the current record begins, counted from one.
  std::size_t line() const { return line_; }
  /// False if a quote is not closed, or is followed by other text. The record is then this line
  /// alone, without fields.
  bool is_whole() const { return is_whole_; }
  std::vector<std::string>& fields() { return fields_; }

 private:
  bool take_fields(std::string_view& rest);

  std::string_view rest_;
  std::size_t line_ = 0, next_line_ = 1;
  bool is_whole_ = true;
  std::vector<std::string> fields_;
};

/// A CSV table in UTF-8, with or without a byte order mark. The first record names the columns.
class CsvTable {
 public:
  /// Reads the file `name` of `files`. `files` collects the errors, and must outlive the table.
  CsvTable(AnnotationFiles& files, std::string name, std::size_t limit);
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  /// Column titles; empty if the file cannot be read, is empty, or its first record is malformed.
  const std::vector<std::string>& columns() const { return columns_; }
  /// The line with the column titles; 0 for an empty file.
  std::size_t header_line() const { return header_line_; }
  /// Calls `use` for each row with the line on which it begins. A row that does not have one field
  /// per column is an error, and `use` is not called.
  void for_rows(const std::function<void(std::size_t line, std::vector<std::string>& fields)>& use);

 private:
  AnnotationFiles& files_;
  const std::string name_;
  std::string text_;
  CsvRecords records_{""};
  std::vector<std::string> columns_;
  std::size_t header_line_ = 0;
};

}  // namespace stages
