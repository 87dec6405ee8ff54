#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace runner {

/// Rows of cells; the first row is the heading, and trailing cells of a row may be missing.
using TableRows = std::vector<std::vector<std::string>>;

/// Returns, for each column, whether all cells below its heading look like numbers, that is, begin
/// with a digit, a minus sign or a dash. Such a column is right-aligned.
std::vector<bool> number_columns(const TableRows& rows);

/// Returns `rows` as a table. Columns are separated by two spaces, and lines have no trailing
/// spaces. A table with more than `width` columns is made narrower: text wraps between words, and
/// words that are too long are shortened in the middle, but only as far as different cells of a
/// column stay different. If that is not enough, the last columns move to a table of their own
/// below, which repeats the first column. Columns of numbers are never narrowed.
std::string table_text(const TableRows& rows,
                       std::size_t width = std::numeric_limits<std::size_t>::max());

}  // namespace runner
