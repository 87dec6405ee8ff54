#include "runner/parent/cli/text_check.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

void check(const std::string& what, std::string_view name, Diagnostics& errors) {
  if (!invalid_utf8(name)) return;
  errors.push_back(
      {ErrorCode::kUsage,
       {},
       "",
       what + " is not UTF-8 text: '" + with_escapes(name) + "'",
       "rename it: `convmv -f latin1 -t utf8 --notest NAME` does it for names from older systems"});
}

}  // namespace

Diagnostics check_texts(std::span<const std::string> words) {
  Diagnostics errors;
  for (const std::string& word : words) check("an argument", word, errors);
  std::error_code error;
  check("the name of the working folder", std::filesystem::current_path(error).native(), errors);
  for (const char* const name :
       {"HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "HF_HOME", "HF_HUB_CACHE"}) {
    const char* const value = std::getenv(name);
    if (value) check("the folder that " + std::string(name) + " names", value, errors);
  }
  return errors;
}

}  // namespace runner
