#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stages {

/// A matrix of whole numbers from a MAT-file, column by column.
struct MatMatrix {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> values;
};

/// A field of a record: a whole number, a UTF-8 text, or anything else, which is dropped.
using MatCell = std::variant<std::monostate, std::int64_t, std::string>;

/// A list of records, MATLAB's struct array.
struct MatRecords {
  std::vector<std::string> fields;         ///< their names, in the order of the file
  std::vector<std::vector<MatCell>> rows;  ///< each a cell for every field
};

/// Longer MAT-files are refused, and so are longer decompressed parts, in total.
inline constexpr std::size_t kMaxMatBytes = std::size_t{64} << 20;

// These read a variable of a MAT-file of version 5 ("MAT-File Format", The MathWorks), compressed
// or plain. Other variables may be of any kind. The contents of `file` are not trusted. Each throws
// std::invalid_argument with the fault in half a sentence: "it ends within …".

/// A real matrix of any numeric class whose numbers are whole.
MatMatrix read_mat(std::string_view file, std::string_view name);

/// A list of texts: a cell array of rows of characters.
std::vector<std::string> read_mat_texts(std::string_view file, std::string_view name);

/// A list of records, whose fields may be of any kind.
MatRecords read_mat_records(std::string_view file, std::string_view name);

// Plain MAT-files of version 5. Same contents, same bytes: the header has no timestamp.

/// These matrices, in the smallest class that holds their numbers, which are 0 to 65535.
std::string mat_file(std::span<const MatMatrix> matrices);

/// A cell array: one row of texts, which are UTF-8.
std::string mat_texts_file(const std::string& name, std::span<const std::string> texts);

/// A struct array: one row of records. Numbers are 0 to 65535, stored as MATLAB's default class,
/// double; a cell that is neither number nor text is an empty matrix. Field names have at most 31
/// bytes.
std::string mat_records_file(const std::string& name, const MatRecords& records);

}  // namespace stages
