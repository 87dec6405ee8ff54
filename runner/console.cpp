#include "runner/console.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool wants_color(int fd) { return isatty(fd) && environment("NO_COLOR").empty() && environment("TERM") != "dumb"; }

ExitCode report(Console& console, const Diagnostics& diagnostics) {
  if (console.json) {
    auto list = nlohmann::ordered_json::array();
    for (const Diagnostic& diagnostic : diagnostics) list.push_back(to_json(diagnostic));
    console.out << nlohmann::ordered_json{{"diagnostics", std::move(list)}}.dump(2) << '\n';
  } else {
    for (const Diagnostic& diagnostic : diagnostics) print(console.err, diagnostic, console.color);
  }
  return exit_code(diagnostics);
}

void warn(Console& console, const Diagnostics& warnings) {
  if (console.json || console.is_quiet()) return;
  for (const Diagnostic& warning : warnings) print(console.err, warning, console.color);
}

}  // namespace runner
