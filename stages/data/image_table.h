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

/// A table of images in CSV, and the roles of its columns.
struct ImageTable {
  std::filesystem::path root;  ///< image paths are relative to it
  std::filesystem::path file;
  std::string image, label;  ///< columns: image paths, and class names
  std::optional<std::string> part =
      {};  ///< the column with train, validation or test; nullopt: all images are for training
  std::int64_t minimum_per_class = 1;              ///< classes with fewer images are left out
  std::span<const CaptionTemplate> captions = {};  ///< their fields are columns
  bool allow_outside = false;
};

/// Lists the images of `table` in the order of its rows; classes are sorted bytewise. Captions can
/// use the image's values of the columns that the templates name. Spaces around a field are
/// ignored. An empty path, label or caption field is an error, and so is a duplicate image. Reports
/// all errors at once, at the responsible option: "/root", "/table", "/image", "/label", "/part",
/// "/caption" or "/minimum_per_class". Errors of rows, and of missing images, have their line
/// numbers.
runner::Result<ImageList> list_image_table(const ImageTable& table);

/// Takes records off the front of a CSV text (RFC 4180): fields between commas, quoted if they
/// contain commas, quotes or line ends; records end with "\n" or "\r\n". Empty lines are skipped.
/// Borrows the text.
class CsvRecords {
 public:
  explicit CsvRecords(std::string_view text) : rest_(text) {}

  /// Advances to the next record; false at the end.
  bool next();
  /// The line on which it begins, counted from one.
  std::size_t line() const { return line_; }
  /// False if a quote is not closed, or is followed by something: the record is then this line
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

/// A CSV table, UTF-8 with or without a byte order mark; its first record names the columns.
class CsvTable {
 public:
  /// Reads the file `name` of `files`, which must outlive this and collects the errors.
  CsvTable(AnnotationFiles& files, std::string name, std::size_t limit);
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  /// Column titles; empty if the file cannot be read, is empty, or its first record is malformed.
  const std::vector<std::string>& columns() const { return columns_; }
  /// The line of the titles; 0 for an empty file.
  std::size_t header_line() const { return header_line_; }
  /// Calls `use` with each row that has a field for every column, and the line on which it begins.
  /// Other rows are errors.
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
