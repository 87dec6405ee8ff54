#pragma once

#include <cstddef>
#include <limits>
#include <optional>

namespace runner {

/// The size of a terminal, in characters.
struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};

/// Returns the size of the terminal at file descriptor `fd`. A dimension that the terminal does not
/// report comes from the environment variable COLUMNS or LINES; otherwise it is 80 or 24. nullopt
/// if `fd` is not a terminal, or if TERM is unset or "dumb".
std::optional<TerminalSize> terminal_size(int fd);

/// What the output, for example a terminal, can display.
struct TextStyle {
  std::size_t width = 80;    ///< columns of a curve
  bool is_terminal = false;  ///< lines longer than `width` would wrap
  bool has_blocks = false;   ///< Unicode block characters are displayed; otherwise plain ASCII

  /// Returns the maximum width of a table that is indented by `indentation` columns.
  std::size_t table_width(std::size_t indentation = 0) const {
    if (!is_terminal) return std::numeric_limits<std::size_t>::max();
    return width > indentation ? width - indentation : 1;
  }
};

/// Returns the style of standard output. Block characters are used on a terminal with a UTF-8
/// locale.
TextStyle standard_output_style();

}  // namespace runner
