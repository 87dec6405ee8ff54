#include "runner/cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// More than anyone reads at a time; each costs a search for its line.
constexpr std::size_t kMaxPrinted = 100;

void print_all(Console& console, const Diagnostics& diagnostics) {
  for (std::size_t i = 0; i < std::min(diagnostics.size(), kMaxPrinted); ++i) {
    print(console.err, diagnostics[i], console.color);
  }
  if (diagnostics.size() > kMaxPrinted) {
    console.err << "... and " << diagnostics.size() - kMaxPrinted << " more; --json shows all\n";
  }
}

}  // namespace

bool wants_color(int fd) { return isatty(fd) && environment("NO_COLOR").empty() && environment("TERM") != "dumb"; }

ExitCode report(Console& console, const Diagnostics& diagnostics) {
  if (console.json) {
    auto list = nlohmann::ordered_json::array();
    for (const Diagnostic& diagnostic : diagnostics) list.push_back(to_json(diagnostic));
    console.out << nlohmann::ordered_json{{"diagnostics", std::move(list)}}.dump(2) << '\n';
  } else {
    print_all(console, diagnostics);
  }
  return exit_code(diagnostics);
}

ExitCode finish(Console& console, StandardOutput& standard, ExitCode code) {
  standard.flush();
  if (standard.error() == 0) return code;
  if (standard.error() == EPIPE) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  const Diagnostic lost{ErrorCode::kCannotWrite,
                        {},
                        "",
                        std::string("cannot write to standard output: ") + std::strerror(standard.error()),
                        ""};
  print(console.err, lost, console.color);
  const bool was_done = code == ExitCode::kDone || code == ExitCode::kWouldRun;
  return was_done ? ExitCode::kCannotWrite : code;
}

void warn(Console& console, const Diagnostics& warnings) {
  if (console.json || console.is_quiet()) return;
  print_all(console, warnings);
}

}  // namespace runner
