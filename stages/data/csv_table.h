#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/data/annotation_files.h"

namespace stages {

/// Reads the records in a CSV string (RFC 4180) one by one. Fields are separated by commas, and
/// quoted if they contain commas, quotes or line breaks; records end with "\n" or "\r\n". Empty
/// lines are skipped. The string is borrowed.
class CsvRecords {
 public:
  explicit CsvRecords(std::string_view text) : rest_(text) {}

  /// Advances to the next record. Returns false at the end.
  bool next();
  /// The line on which the current record begins; the first line is 1.
  std::size_t line() const { return line_; }
  /// False if a quote is never closed, or if a closing quote is followed by other text. In that
  /// case, the record consists of this line alone and has no fields.
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
  /// Reads the file called `name` from `files`, which collects the errors and must outlive the
  /// table.
  CsvTable(AnnotationFiles& files, std::string name, std::size_t limit);
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  /// Column titles; empty if the file cannot be read or is empty, or if its first record is
  /// malformed.
  const std::vector<std::string>& columns() const { return columns_; }
  /// The line number of the column titles; 0 for an empty file.
  std::size_t header_line() const { return header_line_; }
  /// Calls `use` for each row, passing the line on which the row begins. A row that does not have
  /// exactly one field per column is an error and is not passed to `use`.
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
