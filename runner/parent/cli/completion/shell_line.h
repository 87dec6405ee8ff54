#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// A command line up to the cursor, split as a POSIX shell splits it.
struct ShellLine {
  std::vector<std::string>
      words;  ///< without quotes; the last, perhaps empty, is the one at the cursor
  std::size_t kept =
      0;  ///< bytes of the last word that bash keeps: it replaces only the part after a break
  bool in_quotes = false;  ///< the cursor is inside quotes
};

/// `breaks` are bash's COMP_WORDBREAKS.
ShellLine read_shell_line(std::string_view line, std::string_view breaks);

/// What bash must insert to turn the last word into `text`: the part after the kept bytes, quoted
/// for the shell.
std::string shell_replacement(const ShellLine& line, std::string_view text);

/// The script that makes a shell, "bash", "zsh" or "fish", complete the words of `retort`; empty
/// for any other. Each script calls `retort __complete` at every press of the key.
std::string_view completion_script(std::string_view shell);

}  // namespace runner
