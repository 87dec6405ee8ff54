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

/// A table of images in CSV, and which of its columns say what.
struct ImageTable {
  std::filesystem::path root;  ///< that the images' paths count from
  std::filesystem::path file;
  std::string image, label;  ///< columns: of paths, and of names of classes
  std::optional<std::string> part =
      {};  ///< of train, validation or test; nullopt: all images are for training
  std::int64_t minimum_per_class = 1;              ///< classes with fewer images are left out
  std::span<const CaptionTemplate> captions = {};  ///< their fields are columns
  bool allow_outside = false;
};

/// Lists the images of `table` in the order of its rows; classes are sorted bytewise. Captions can
/// say what the columns that the templates name have in the image's row. Spaces around a field do
/// not count; an empty path, label or field of a caption is an error, and so is an image that is
/// there twice. Everything wrong is reported at once, at the option that says it: "/root",
/// "/table", "/image", "/label", "/part", "/caption" or "/minimum_per_class"; faults of rows with
/// their lines, and so images that are not there.
runner::Result<ImageList> list_image_table(const ImageTable& table);

/// Takes records off the front of a text in CSV (RFC 4180): fields between commas, in quotes where
/// they hold commas, quotes or line ends; records end with "\n" or "\r\n". Empty lines are passed
/// over. It borrows the text.
class CsvRecords {
 public:
  explicit CsvRecords(std::string_view text) : rest_(text) {}

  /// Goes on to the next record; false at the end.
  bool next();
  /// The line where it begins, counted from one.
  std::size_t line() const { return line_; }
  /// False where a quote is not closed, or is followed by something: the record is then this line
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

/// A table in CSV, UTF-8 with or without a byte order mark: its first record names the columns.
class CsvTable {
 public:
  /// Reads the file `name` of `files`, which must outlive this and learns what is wrong with it.
  CsvTable(AnnotationFiles& files, std::string name, std::size_t limit);
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  /// Their titles; none where the file cannot be read, is empty, or its first record is broken.
  const std::vector<std::string>& columns() const { return columns_; }
  /// Where they are named; 0 in an empty file.
  std::size_t header_line() const { return header_line_; }
  /// Calls `use` with each row, which has a field for every column, and the line where it begins.
  /// Other rows are faults.
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
