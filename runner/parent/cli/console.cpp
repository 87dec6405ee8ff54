#include "runner/parent/cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

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

Json envelope(std::string_view shape) { return {{"schema", shape}, {"retort", RETORT_VERSION}}; }

void print_document(Console& console, Json document, const Diagnostics& errors) {
  for (const Diagnostic& error : errors) document["errors"].push_back(to_json(error));
  document["warnings"] = console.warnings ? *console.warnings : Json::array();
  console.out << printable_json(document.dump(console.json_lines ? -1 : 2, ' ', false, Json::error_handler_t::replace))
              << '\n';
}

}  // namespace

bool wants_color(int fd) { return isatty(fd) && environment("NO_COLOR").empty() && environment("TERM") != "dumb"; }

void print_result(Console& console, std::string_view shape, const Json& result, const Diagnostics& errors) {
  Json document = envelope(shape);
  document["result"] = result;
  print_document(console, std::move(document), errors);
}

ExitCode report(Console& console, const Diagnostics& diagnostics) {
  if (console.json) print_document(console, envelope("errors/1"), diagnostics);
  else print_all(console, diagnostics);
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
  if (console.json) {
    if (!console.warnings) console.warnings = std::make_shared<Json>(Json::array());
    for (const Diagnostic& warning : warnings) console.warnings->push_back(to_json(warning));
  } else if (!console.is_quiet()) {
    print_all(console, warnings);
  }
}

Lease::Options with_warnings(Console& console) {
  return {.on_wait = [&console](const std::string& line) {
    warn(console, {{.code = ErrorCode::kRunBusy, .message = line, .severity = Severity::kWarning}});
  }};
}

}  // namespace runner
