#include "tests/support/system_calls.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>

namespace {

thread_local WatchedCalls* watched = nullptr;

}  // namespace

WatchedCalls::WatchedCalls() { watched = this; }
WatchedCalls::~WatchedCalls() { watched = nullptr; }

int WatchedCalls::flags_of(const std::string& path) const {
  int flags = 0;
  for (const Opened& one : opened_) {
    if (one.path == path) flags = one.flags;
  }
  return flags;
}

void WatchedCalls::see_fsync(int file) {
  std::error_code error;
  flushed_.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), error));
}

// A program's own function takes precedence over the C library's function of the same name.
extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, int) : 0;
  va_end(rest);
  if (watched) watched->see_open(path, flags);
  if (watched && watched->new_file_error() != 0 && (flags & O_CREAT)) {
    errno = watched->new_file_error();
    return -1;
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int fsync(int file) {
  if (watched) watched->see_fsync(file);
  return static_cast<int>(syscall(SYS_fsync, file));
}

int flock(int file, int operation) {
  if (watched && watched->has_no_locks()) {
    errno = ENOLCK;
    return -1;
  }
  if (watched && watched->refuses_lock()) {
    errno = EWOULDBLOCK;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, file, operation));
}
}
