#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// A command line up to the cursor, split into words the way a POSIX shell does it.
struct ShellLine {
  std::vector<std::string>
      words;  ///< without quotes; the last word is the one at the cursor and may be empty
  /// The number of leading bytes of the last word that bash keeps: it replaces only the text after
  /// the last character of COMP_WORDBREAKS.
  std::size_t kept = 0;
  bool in_quotes = false;  ///< the cursor is inside quotes
};

/// Splits `line`, which ends at the cursor. `breaks` is the value of bash's COMP_WORDBREAKS.
ShellLine read_shell_line(std::string_view line, std::string_view breaks);

/// Returns the text that bash must insert to turn the last word into `text`: the part after the
/// kept bytes, quoted for the shell.
std::string shell_replacement(const ShellLine& line, std::string_view text);

/// Returns the script with which a shell ("bash", "zsh" or "fish") completes `retort` command
/// lines; empty for any other shell. Each script calls `retort __complete` whenever the user
/// presses Tab.
std::string_view completion_script(std::string_view shell);

}  // namespace runner
