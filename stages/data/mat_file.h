#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stages {

/// A matrix of whole numbers from a MAT-file, column after column.
struct MatMatrix {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> values;
};

/// A field of a record: a whole number, a text in UTF-8, or anything else, which is not kept.
using MatCell = std::variant<std::monostate, std::int64_t, std::string>;

/// A list of records, MATLAB's struct array.
struct MatRecords {
  std::vector<std::string> fields;         ///< their names, in the order of the file
  std::vector<std::vector<MatCell>> rows;  ///< each a cell for every field
};

/// No MAT-file is read that is longer, or whose compressed parts are, taken together.
inline constexpr std::size_t kMaxMatBytes = std::size_t{64} << 20;

// These read a variable of a MAT-file of version 5 ("MAT-File Format", The MathWorks), compressed or plain. Other
// variables may be of any kind. `file` is trusted in nothing. Each throws std::invalid_argument saying what is wrong,
// in half a sentence: "it ends within …".

/// A real matrix of any numeric class whose numbers are whole.
MatMatrix read_mat(std::string_view file, std::string_view name);

/// A list of texts: a cell array of rows of characters.
std::vector<std::string> read_mat_texts(std::string_view file, std::string_view name);

/// A list of records, whose fields may be of any kind.
MatRecords read_mat_records(std::string_view file, std::string_view name);

}  // namespace stages
