#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/data/annotation_files.h"

namespace stages {

/// Takes records off the front of a text in CSV (RFC 4180): fields between commas, in quotes where they hold commas,
/// quotes or line ends; records end with "\n" or "\r\n". Empty lines are passed over. It borrows the text.
class CsvRecords {
 public:
  explicit CsvRecords(std::string_view text) : rest_(text) {}

  /// Goes on to the next record; false at the end.
  bool next();
  /// The line where it begins, counted from one.
  std::size_t line() const { return line_; }
  /// False where a quote is not closed, or is followed by something: the record is then this line alone, without
  /// fields.
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
  /// Calls `use` with each row, which has a field for every column, and the line where it begins. Other rows are
  /// faults.
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
