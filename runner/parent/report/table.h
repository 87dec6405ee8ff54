#pragma once

#include <string>
#include <vector>

namespace runner {

/// Rows of cells below each other, columns two blanks apart, no blanks at a line's end; the first row is the head.
/// Cells that begin with a digit, a sign or a dash stand at the right of their column, together with its head.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace runner
