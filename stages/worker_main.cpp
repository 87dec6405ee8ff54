#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "runner/shared/error/exit_code.h"
#include "stages/worker_library.h"

namespace {

constexpr auto kUsage = static_cast<int>(runner::ExitCode::kUsage);

std::optional<int> events_descriptor(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--events-fd") != 0) return std::nullopt;
  const std::string_view text = argv[2];
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// Ends the process without destroying static objects: LibTorch's tables of operators take a tenth
/// of a second. A build with assertions destroys them, so that sanitizers can report leaks.
[[noreturn]] void leave(int exit) {
#ifdef NDEBUG
  std::fflush(nullptr);
  _exit(exit);
#else
  std::exit(exit);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const auto events = events_descriptor(argc, argv);
  const int exit = events ? retort_worker_serve(*events, /*call=*/nullptr) : kUsage;
  if (exit == kUsage)
    std::fputs("retort-worker only works when started by retort: see `retort --help`\n", stderr);
  leave(exit);
}
