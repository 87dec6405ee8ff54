#include "runner/parent/run/meeting_file.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <system_error>

namespace runner {
namespace {

std::filesystem::path unused_path() {
  constexpr const char* kInMemory = "/dev/shm";
  std::error_code none;
  const std::filesystem::path folder = access(kInMemory, W_OK) == 0
                                           ? std::filesystem::path(kInMemory)
                                           : std::filesystem::temp_directory_path(none);
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return folder / ("retort-" + std::to_string(getpid()) + "-" + std::to_string(now));
}

}  // namespace

MeetingFile::MeetingFile() : path_(unused_path()) {}

MeetingFile::~MeetingFile() { ::unlink(path_.c_str()); }

}  // namespace runner
