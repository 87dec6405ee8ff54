#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "runner/shared/error/exit_code.h"
#include "stages/run_worker.h"

namespace {

std::optional<int> events_descriptor(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--events-fd") != 0) return std::nullopt;
  const std::string_view text = argv[2];
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return fcntl(number, F_SETFD, FD_CLOEXEC) == 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const auto events = events_descriptor(argc, argv);
  if (!events) {
    std::fputs("retort starts retort-worker, which does nothing by itself: type `retort --help`\n",
               stderr);
    return static_cast<int>(runner::ExitCode::kUsage);
  }
  return stages::run_worker(*events);
}
