#include "runner/parent/cli/console.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "runner/shared/text/printable.h"

namespace runner {

StandardOutput::StandardOutput(int descriptor) : std::ostream(nullptr), buffer_(descriptor) {
  rdbuf(&buffer_);
}

StandardOutput::Buffer::Buffer(int descriptor)
    : descriptor_(descriptor), is_terminal_(isatty(descriptor)) {
  setp(waiting_.data(), waiting_.data() + waiting_.size());
}

StandardOutput::Buffer::int_type StandardOutput::Buffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

std::streamsize StandardOutput::Buffer::xsputn(const char* text, std::streamsize size) {
  const auto count = static_cast<std::size_t>(size);
  if (size > epptr() - pptr() && sync() != 0) return 0;
  if (count > waiting_.size()) return write_all(text, count) ? size : 0;
  std::memcpy(pptr(), text, count);
  pbump(static_cast<int>(size));
  if (is_terminal_ && std::memchr(text, '\n', count) && sync() != 0) return 0;
  return size;
}

int StandardOutput::Buffer::sync() {
  const auto size = static_cast<std::size_t>(pptr() - pbase());
  setp(waiting_.data(), waiting_.data() + waiting_.size());
  return write_all(pbase(), size) ? 0 : -1;
}

bool StandardOutput::Buffer::write_all(const char* text, std::size_t size) {
  while (size > 0 && error_ == 0) {
    const ssize_t written = ::write(descriptor_, text, size);
    if (written >= 0) {
      text += written;
      size -= static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  return error_ == 0;
}

void fill_missing_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null",
           descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // open() returns the lowest free
                                                               // descriptor
  }
}

namespace {

using Json = nlohmann::ordered_json;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The maximum number of errors printed as text. Users do not read more at once, and finding the
/// line for each error takes time.
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
  console.out << printable_json(document.dump(console.json_lines ? -1 : 2, ' ', false,
                                              Json::error_handler_t::replace))
              << '\n';
}

}  // namespace

bool wants_color(int fd) {
  return isatty(fd) && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

void print_result(Console& console, std::string_view shape, const Json& result,
                  const Diagnostics& errors) {
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
  const Diagnostic lost{
      ErrorCode::kCannotWrite,
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
