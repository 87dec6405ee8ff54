#include "runner/shared/text/terminal.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace runner {
namespace {

/// Returns `reported`, or else the number in the environment variable `name`, or else `usual`.
std::size_t dimension(unsigned short reported, const char* name, std::size_t usual) {
  if (reported > 0) return reported;
  const char* const text = std::getenv(name);
  const int value = text ? std::atoi(text) : 0;
  return value > 0 ? static_cast<std::size_t>(value) : usual;
}

bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first one that is set takes
                                                             // effect
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string locale = value;
    std::ranges::transform(locale, locale.begin(),
                           [](unsigned char letter) { return std::tolower(letter); });
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

}  // namespace

std::optional<TerminalSize> terminal_size(int fd) {
  const char* const terminal = std::getenv("TERM");
  if (!isatty(fd) || !terminal || std::string_view(terminal) == "dumb") return {};
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) size = {};
  return TerminalSize{.columns = dimension(size.ws_col, "COLUMNS", 80),
                      .rows = dimension(size.ws_row, "LINES", 24)};
}

TextStyle standard_output_style() {
  const auto size = terminal_size(STDOUT_FILENO);
  if (!size) return {};
  return {.width = size->columns, .is_terminal = true, .has_blocks = is_utf8_locale()};
}

}  // namespace runner
