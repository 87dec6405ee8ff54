#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stages {

/// A matrix of integers from a MAT-file, in column-major order.
struct MatMatrix {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> values;
};

/// A field of a record: an integer, a UTF-8 string, or std::monostate for any other value, which is
/// dropped.
using MatCell = std::variant<std::monostate, std::int64_t, std::string>;

/// A list of records, called a struct array in MATLAB.
struct MatRecords {
  std::vector<std::string> fields;         ///< field names, in file order
  std::vector<std::vector<MatCell>> rows;  ///< each row has one cell per field
};

/// The largest accepted size of a MAT-file, and of all its decompressed data.
inline constexpr std::size_t kMaxMatBytes = std::size_t{64} << 20;

// The following functions read one variable of a version 5 MAT-file ("MAT-File Format", The
// MathWorks), compressed or not. Other variables may be of any kind. The contents of `file` are not
// trusted. Each function throws std::invalid_argument with a clause that describes the error: "it
// ends within …".

/// Reads a real matrix of integers, stored in any numeric class.
MatMatrix read_mat(std::string_view file, std::string_view name);

/// Reads a list of strings: a cell array of character rows.
std::vector<std::string> read_mat_texts(std::string_view file, std::string_view name);

/// Reads a list of records with fields of any kind.
MatRecords read_mat_records(std::string_view file, std::string_view name);

// The following functions return an uncompressed version 5 MAT-file. Equal contents produce equal
// bytes, since the header has no timestamp.

/// Stores matrices of integers from 0 to 65535, in the smallest class that can represent them.
std::string mat_file(std::span<const MatMatrix> matrices);

/// Stores UTF-8 strings as a cell array with one row.
std::string mat_texts_file(const std::string& name, std::span<const std::string> texts);

/// Stores records as a struct array with one row. Integers from 0 to 65535 are stored as double,
/// MATLAB's default class; a cell that is neither an integer nor a string becomes an empty matrix.
/// Field names may have at most 31 bytes.
std::string mat_records_file(const std::string& name, const MatRecords& records);

}  // namespace stages
