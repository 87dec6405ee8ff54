#include "runner/shared/text/markdown_text.h"

#include "runner/shared/text/printable.h"

namespace runner {

std::string markdown_text(std::string_view text) {
  std::string result;
  for (const char letter : printable(text)) {
    if (letter == '<') result += "&lt;";
    else if (letter == '&') result += "&amp;";
    else {
      if (std::string_view("\\`*_{}[]>#|~!$@").find(letter) != std::string_view::npos)
        result += '\\';
      result += letter;
    }
  }
  return result;
}

}  // namespace runner
